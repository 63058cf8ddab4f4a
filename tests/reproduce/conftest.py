"""The packaged turbulence results, analysed once for all tests."""

import pytest

from driftbayes.reproduce.turbulence import analysis as module
from driftbayes.reproduce.turbulence.results import Results, load_results


@pytest.fixture(scope="session")
def packaged():
    return load_results()


@pytest.fixture(scope="session")
def whole_analysis(packaged):
    """All that the page shows."""
    return module.analyse(packaged)


@pytest.fixture(scope="session", params=["two", pytest.param("all", marks=pytest.mark.slow)])
def analysis(request, packaged):
    """Two of the four realisations with fewer draws of the spread; all of them in slow tests."""
    if request.param == "all":
        return request.getfixturevalue("whole_analysis")
    names = list(packaged.realisations)[::3]
    two = Results({name: packaged.realisations[name] for name in names}, packaged.branches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "N_DRAWS", 32)
        return module.analyse(two)

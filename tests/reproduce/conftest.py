"""The packaged turbulence results, analysed once for all tests."""

import pytest

from driftbayes.reproduce.turbulence.analysis import analyse
from driftbayes.reproduce.turbulence.results import load_results


@pytest.fixture(scope="session")
def packaged():
    return load_results()


@pytest.fixture(scope="session")
def analysis(packaged):
    return analyse(packaged)

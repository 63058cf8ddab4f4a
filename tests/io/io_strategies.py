"""Trajectories for the tests of the dock: values drawn freely, shapes from a handful."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from driftbayes.data._trajectories import Trajectories

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".nc", ".zarr")

EXTREMES = [0.0, -0.0, 1e-300, -1e-300, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 2**53 + 2.0]
coordinates = st.one_of(
    st.sampled_from(EXTREMES), st.floats(allow_nan=False, allow_infinity=False, width=64)
)
# No control characters or surrogates, which no text file holds; no spaces around.
words = st.text(
    st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8
) | st.sampled_from(["NA", "nan", "a b", 'say "x"', "a,b", "007", "é", "漂流"])


def _is_whole(text: str) -> bool:
    return text.strip().lstrip("-").isdigit()


def ids(n: int, *, wordlike: bool | None = None) -> st.SearchStrategy[list[object]]:
    """Distinct ids, all integers or all text that could not be taken for integers."""
    whole = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n, unique=True)
    text = st.lists(words.filter(lambda w: not _is_whole(w)), min_size=n, max_size=n, unique=True)
    if wordlike is None:
        return st.one_of(whole, text)
    return text if wordlike else whole


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectories:
    """Ragged trajectories in 1 to 3 dimensions with gaps, any ids, with or without errors."""
    sizes = draw(st.sampled_from([(1,), (2, 1), (3, 1, 4), (2, 2, 2)]))
    n_rows, n_dim = sum(sizes), draw(st.integers(1, 3))
    positions = draw(hnp.arrays(np.float64, (n_rows, n_dim), elements=coordinates))
    missing = draw(hnp.arrays(bool, n_rows))
    positions[missing] = np.nan
    steps = draw(hnp.arrays(np.float64, n_rows, elements=st.floats(1e-3, 1e3), fill=st.nothing()))
    sd = None
    if draw(st.booleans()):
        sd = draw(hnp.arrays(np.float64, n_rows, elements=st.floats(0, 1e300)))
        sd[missing & draw(hnp.arrays(bool, n_rows))] = np.nan
    lonlat, flags = None, {}
    if n_dim > 1 and draw(st.booleans()):
        lonlat = draw(hnp.arrays(np.float64, (n_rows, 2), elements=st.floats(-180, 180)))
        lonlat[missing] = np.nan
    if draw(st.booleans()):
        flag = st.sampled_from([0.0, 1.0, np.nan])
        flags = {"drogued": draw(hnp.arrays(np.float64, n_rows, elements=flag))}
    return Trajectories(
        positions=positions,
        times=np.concatenate([np.cumsum(s) for s in np.split(steps, np.cumsum(sizes)[:-1])]),
        row_sizes=np.array(sizes),
        ids=np.array(draw(ids(len(sizes)))),
        position_sd=sd,
        length_unit=draw(st.sampled_from(["", "m", "µm"])),
        time_unit=draw(st.sampled_from(["", "s", "hours", "days"])),
        provenance={"seed": draw(st.integers(0, 99))},
        lonlat=lonlat,
        flags=flags,
    )


def assert_same_bits(one: Trajectories, other: Trajectories) -> None:
    """All arrays equal bit for bit, ids equal in value and kind."""
    for name in ("positions", "times", "row_sizes", "position_sd", "lonlat"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.shape == b.shape, name
            assert a.tobytes() == b.tobytes(), name
    assert set(one.flags) == set(other.flags)
    for name, values in one.flags.items():
        assert values.tobytes() == other.flags[name].tobytes(), name
    assert one.ids.tolist() == other.ids.tolist()
    assert one.ids.dtype.kind == other.ids.dtype.kind

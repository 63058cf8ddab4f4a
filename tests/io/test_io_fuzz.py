"""Whatever a file holds, only a `DriftbayesError` may come out."""

import functools
import gzip

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import tries

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_scan, read_trajectories, write_trajectories

SUFFIXES = [".csv", ".csv.gz", ".parquet", ".pq", ".nc"]
CELLS = st.sampled_from(
    [
        "",
        " ",
        "1",
        "-0",
        "1e400",
        "nan",
        "NA",
        "abc",
        '"',
        '"a',
        '"a\nb"',
        "2024-01-01",
        "\r",
        "\0",
        "é",
    ]
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def whole(scratch):
    tracks = Trajectories.from_arrays(
        np.arange(12.0).reshape(2, 3, 2), dt=1.0, ids=["a", "é"], provenance={"seed": 1}
    )

    @functools.cache
    def data(suffix):
        write_trajectories(tracks, scratch / f"whole{suffix}")
        return (scratch / f"whole{suffix}").read_bytes()

    return data


def read_or_refuse(path, data):
    path.write_bytes(data)
    try:
        read_trajectories(path)
    except DriftbayesError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 500


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=tries(25), deadline=None)
@given(data=st.binary(max_size=300))
@example(data=b"")
@example(data=b"PAR1PAR1")
@example(data=b"PAR1\x00\x00\x00\x00PAR1")
@example(data=b"\x89HDF\r\n\x1a\n" + bytes(100))
@example(data=b"\x1f\x8b\x08\x00")
@example(data=gzip.compress(b"\xff\xfe\x00"))
@example(data=b'id,time,x\n"' + b"a" * 200_000)
def test_random_bytes_are_refused_in_one_sentence(scratch, suffix, data):
    read_or_refuse(scratch / f"random{suffix}", data)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=tries(25), deadline=None)
@given(cut=st.floats(0, 1))
def test_truncated_files_are_refused_in_one_sentence(scratch, whole, suffix, cut):
    data = whole(suffix)
    read_or_refuse(scratch / f"cut{suffix}", data[: int(cut * len(data))])


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=tries(30), deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_damaged_files_are_read_or_refused_in_one_sentence(scratch, whole, suffix, place, bits):
    data = bytearray(whole(suffix))
    data[int(place * len(data))] ^= bits
    read_or_refuse(scratch / f"damaged{suffix}", bytes(data))


@settings(max_examples=tries(60), deadline=None)
@given(rows=st.lists(st.lists(CELLS, max_size=5), max_size=6), ending=st.sampled_from("\n\r"))
def test_tables_of_odd_cells_are_read_or_refused_in_one_sentence(scratch, rows, ending):
    text = ending.join(["id,time,x,y", *(",".join(row) for row in rows)])
    read_or_refuse(scratch / "odd.csv", text.encode())
    read_or_refuse(scratch / "odd.csv.gz", gzip.compress(text.encode()))


@settings(max_examples=tries(30), deadline=None)
@given(data=st.binary(max_size=300))
def test_a_scan_of_random_bytes_is_refused(scratch, data):
    (scratch / "scan.nc").write_bytes(data)
    with pytest.raises(DriftbayesError):
        read_scan(scratch / "scan.nc")

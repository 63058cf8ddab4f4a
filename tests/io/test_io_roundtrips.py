import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_strategies import EXTREMES, SUFFIXES, assert_same_bits, trajectories

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import read_trajectories, write_trajectories


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("roundtrips")


def through(tracks, path):
    write_trajectories(tracks, path)
    # CSV holds no units, and may have numbers that look like fill values; the other formats must
    # not need to be told.
    told = {}
    if ".csv" in path.name:
        told = {"length_unit": tracks.length_unit, "time_unit": tracks.time_unit, "missing": ()}
    return read_trajectories(path, **told)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=12, deadline=None)
@given(tracks=trajectories())
def test_there_and_back_changes_no_bit(scratch, suffix, tracks):
    read = through(tracks, scratch / f"t{suffix}")
    assert_same_bits(read, tracks)
    assert (read.length_unit, read.time_unit) == (tracks.length_unit, tracks.time_unit)
    assert read.fingerprint == tracks.fingerprint


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_extreme_numbers_keep_every_bit(tmp_path, suffix):
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 2**64, 5000, dtype=np.uint64).view(np.float64)
    values = np.concatenate([EXTREMES, anything[np.isfinite(anything)]])
    tracks = Trajectories.from_arrays([values[:, None]], dt=1.0)
    assert_same_bits(through(tracks, tmp_path / f"t{suffix}"), tracks)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_pattern_of_nan_comes_back_as_the_one_nan(tmp_path, suffix):
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    tracks = Trajectories.from_arrays([np.array([1.0, *odd])[:, None]], dt=1.0)
    clean = Trajectories.from_arrays([[[1.0], [np.nan], [np.nan]]], dt=1.0)
    assert through(tracks, tmp_path / f"t{suffix}").fingerprint == clean.fingerprint


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(max_examples=30, deadline=None)
@given(tracks=trajectories(), seed=st.integers(0, 99))
def test_rows_may_be_interleaved_in_any_order_that_keeps_each_trajectory(
    scratch, suffix, tracks, seed
):
    path = scratch / "rows.parquet"
    write_trajectories(tracks, path)
    rows = _interleaved(tracks.row_sizes, np.random.default_rng(seed))
    table = pq.read_table(path).take(pa.array(rows))
    shuffled = scratch / f"shuffled{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, shuffled)
    else:
        pa.csv.write_csv(table, shuffled)
    read = read_trajectories(shuffled, length_unit=tracks.length_unit, time_unit=tracks.time_unit)
    # In order of first appearance, which need not be the order they were written in.
    first_seen = list(dict.fromkeys(tracks.trajectory_index[rows]))
    assert_same_bits(read, _reordered(tracks, first_seen))


def _interleaved(row_sizes, rng):
    owner = rng.permutation(np.repeat(np.arange(len(row_sizes)), row_sizes))
    rows = np.empty(len(owner), dtype=np.int64)
    # The n-th row of each trajectory goes where its owner is drawn for the n-th time.
    rows[np.argsort(owner, kind="stable")] = np.arange(len(owner))
    return rows


def _reordered(tracks, order):
    rows = np.concatenate([np.arange(tracks.starts[i], tracks.starts[i + 1]) for i in order])
    sd = tracks.position_sd
    return Trajectories(
        positions=tracks.positions[rows],
        times=tracks.times[rows],
        row_sizes=tracks.row_sizes[order],
        ids=tracks.ids[order],
        position_sd=None if sd is None else sd[rows],
        lonlat=None if tracks.lonlat is None else tracks.lonlat[rows],
        flags={name: values[rows] for name, values in tracks.flags.items()},
    )

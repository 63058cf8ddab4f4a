"""Files that mean harm: nothing in them is run, and each is refused or read, soon and in memory."""

import json
import os
import pickle

import numpy as np
import pytest
import xarray as xr

import fuzz
import fuzz_hostile
from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io import _zarr_store as zarr_store
from driftbayes.io import read_trajectories


@pytest.mark.parametrize(
    ("kinds", "n_cases", "min_tried", "min_read"),
    [
        # Of the other kinds there are tests in this folder, file by file.
        (("tables", "numpy", "parquet", "special"), 31, 65, 3),
        pytest.param(fuzz_hostile.KINDS, 60, 110, 7, marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_mutated_and_hostile_files_are_read_or_refused(
    tmp_path, kinds, n_cases, min_tried, min_read
):
    # Hostile files and a mutation of each sample; `make fuzz` tries thousands.
    tally = fuzz.run(tmp_path, n_cases=n_cases, hostile=kinds, n_workers=2)
    assert tally.failures == [], fuzz.table(tally)
    # Nothing passes because nothing was tried.
    assert tally.n_cases >= min_tried
    assert tally.outcomes["read"] >= min_read
    assert not (tmp_path / "hostile" / fuzz_hostile.MARK).exists()


class Harm:
    def __init__(self, place):
        self.place = str(place)

    def __reduce__(self):
        return (os.mkdir, (self.place,))


def store_with(tmp_path, change, form):
    dataset = xr.Dataset(
        {
            "x": ("obs", np.zeros(3), {"units": "m"}),
            "y": ("obs", np.zeros(3), {"units": "m"}),
            "time": ("obs", np.arange(3.0), {"units": "s"}),
        }
    )
    store = tmp_path / "a.zarr"
    dataset.to_zarr(store, zarr_format=form, consolidated=False)
    file = store / "x" / (".zarray" if form == 2 else "zarr.json")
    described = json.loads(file.read_text())
    change(described)
    file.write_text(json.dumps(described))
    return store


def pickle_filter(described):
    described |= {"dtype": "|O", "filters": [{"id": "pickle"}], "compressor": None}


def pickle_compressor(described):
    described |= {"compressor": {"id": "pickle"}}


def pickle_codec(described):
    described["codecs"].append({"name": "numcodecs.pickle", "configuration": {}})


def pickle_in_a_shard(described):
    inner = {"name": "numcodecs.pickle", "configuration": {}}
    shard = {"chunk_shape": [3], "codecs": [inner], "index_codecs": [{"name": "bytes"}]}
    described["codecs"] = [{"name": "sharding_indexed", "configuration": shard}]


@pytest.mark.parametrize(
    ("change", "form"),
    [(pickle_filter, 2), (pickle_compressor, 2), (pickle_codec, 3), (pickle_in_a_shard, 3)],
)
def test_a_store_that_names_pickle_is_refused_before_a_decoder_opens(
    tmp_path, monkeypatch, change, form
):
    # As it was before numcodecs 0.16.6: only we stand between the store and the pickle.
    import numcodecs.pickles

    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    store = store_with(tmp_path, change, form)
    code = pickle.dumps(np.array([Harm(tmp_path / "ran")] * 3, dtype=object))
    for chunk in ("0", "c/0"):
        (store / "x" / chunk).parent.mkdir(exist_ok=True)
        (store / "x" / chunk).write_bytes(code)
    with pytest.raises(DriftbayesError, match=r"names the codec '(numcodecs\.)?pickle'"):
        read_trajectories(store)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("codec", ["json2", "msgpack2", "vlen-array", "categorize", "nonsense"])
def test_codecs_of_objects_and_unknown_ones_are_refused(tmp_path, codec):
    def change(described):
        described["filters"] = [{"id": codec}]

    with pytest.raises(DriftbayesError, match=f"names the codec '{codec}'"):
        read_trajectories(store_with(tmp_path, change, 2))


@pytest.mark.parametrize("where", [".zmetadata", "deep/inner/.zarray", "zarr.json"])
def test_a_codec_is_refused_wherever_it_is_named(tmp_path, where):
    store = store_with(tmp_path, lambda described: None, 2)
    bad = {"shape": [1], "filters": [{"id": "pickle"}]}
    if where == ".zmetadata":
        bad = {"metadata": {"x/.zarray": bad}}
    if where == "zarr.json":
        bad = {"node_type": "group", "consolidated_metadata": {"metadata": {"x": bad}}}
    (store / where).parent.mkdir(parents=True, exist_ok=True)
    (store / where).write_text(json.dumps(bad))
    with pytest.raises(DriftbayesError, match="names the codec 'pickle'"):
        zarr_store.check_store(store)


def test_attributes_may_say_what_they_like(tmp_path):
    store = store_with(tmp_path, lambda described: None, 2)
    attributes = json.loads((store / "x" / ".zattrs").read_text())
    attributes["filters"] = [{"id": "pickle"}]
    (store / "x" / ".zattrs").write_text(json.dumps(attributes))
    assert len(read_trajectories(store).times) == 3


@pytest.mark.parametrize("size", ["8GB", "1.5 GB", "200 MB", "4096"])
def test_the_memory_for_reading_can_be_set(monkeypatch, size):
    monkeypatch.setenv(limits.MEMORY_VARIABLE, size)
    expected = {"8GB": 8e9, "1.5 GB": 1.5e9, "200 MB": 2e8, "4096": 4096}[size]
    assert limits.memory_budget() == expected


@pytest.mark.parametrize("size", ["lots", "-1GB", "0", "GB"])
def test_a_size_that_is_none_is_refused(monkeypatch, size):
    monkeypatch.setenv(limits.MEMORY_VARIABLE, size)
    with pytest.raises(DriftbayesError, match="must be a size such as 8GB"):
        limits.memory_budget()


@pytest.mark.parametrize("name", ["a.npy", "a.csv", "a.csv.gz", "a.parquet", "a.nc"])
def test_a_file_beyond_the_memory_is_refused_with_the_variable_that_allows_more(
    tmp_path, monkeypatch, name
):
    from driftbayes.data._trajectories import Trajectories
    from driftbayes.io import write_trajectories

    tracks = Trajectories.from_arrays(np.cumsum(np.ones((2, 4000, 2)), axis=1), dt=1.0)
    if name == "a.npy":
        np.save(tmp_path / name, np.cumsum(np.ones((2, 4000, 2)), axis=1))
    else:
        write_trajectories(tracks, tmp_path / name)
    monkeypatch.setattr(limits, "_ALWAYS_ALLOWED", 1000)
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "10KB")
    with pytest.raises(
        DriftbayesError, match=rf"more than the available 10 KB.*{limits.MEMORY_VARIABLE}="
    ):
        read_trajectories(tmp_path / name)
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "1GB")
    assert len(read_trajectories(tmp_path / name).times) == 8000


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(DriftbayesError, match="is a pipe, a socket or a device"):
        read_trajectories(tmp_path / "a.csv")


def test_time_that_is_over_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.TIME_VARIABLE, "1e-9")
    clock = limits.Clock("a.csv", 10)
    with pytest.raises(
        DriftbayesError, match=rf"'a\.csv' was not read within .*{limits.TIME_VARIABLE}"
    ):
        clock.check()

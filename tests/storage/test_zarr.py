"""Stores that we write are read by the Zarr library, and by us."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr

from driftbayes._storage.zarr import crc32c, create_group, is_group, open_array, read_attributes
from driftbayes.errors import DriftbayesError


def _group(path, **spec):
    arrays = {
        "x": {"shape": (5, 7), "chunks": (2, 3), "dtype": "float64", "dims": ("a", "b"), **spec}
    }
    return create_group(path, arrays, {"title": "a test"})["x"]


def test_what_is_written_is_read_by_us_and_by_the_library(tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 7))
    array = _group(tmp_path / "s.zarr")
    array.write(values, (0, 0))
    assert (array.read() == values).all()
    assert (zarr.open_group(tmp_path / "s.zarr", mode="r")["x"][:] == values).all()
    with xr.open_zarr(tmp_path / "s.zarr") as dataset:
        assert dataset["x"].dims == ("a", "b")
        assert (dataset["x"].to_numpy() == values).all()
        assert dataset.attrs == {"title": "a test"}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_all_types_keep_their_values(tmp_path, dtype):
    values = np.arange(35).reshape(5, 7).astype(dtype)
    array = _group(tmp_path / "s.zarr", dtype=dtype)
    array.write(values, (0, 0))
    library = zarr.open_group(tmp_path / "s.zarr", mode="r")["x"]
    assert library.dtype == dtype
    assert (library[:] == values).all()
    assert (array.read() == values).all()


def test_it_grows_chunk_by_chunk_and_a_chunk_may_be_written_again(tmp_path):
    values = np.arange(35.0).reshape(5, 7)
    array = _group(tmp_path / "s.zarr")
    array.write(values[:, :3], (0, 0))
    assert np.isnan(array.read()[:, 3:]).all()
    assert not array.is_written((0, 3))
    array.write(values[:, 3:], (0, 3))
    array.write(values[:, :3], (0, 0))
    assert (array.read() == values).all()
    assert (array.read((5, 4)) == values[:, :4]).all()
    assert (array.read_chunk((2, 3)) == values[2:4, 3:6]).all()


def test_a_block_that_does_not_fill_its_chunks_is_refused(tmp_path):
    array = _group(tmp_path / "s.zarr")
    for block, start in ((np.zeros((5, 2)), (0, 0)), (np.zeros((5, 3)), (0, 1))):
        with pytest.raises(DriftbayesError, match="does not fill chunks"):
            array.write(block, start)


def test_a_store_of_another_kind_is_refused_with_a_reason(tmp_path):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    group.create_array("x", shape=(4,), chunks=(2,), dtype="float64")
    with pytest.raises(DriftbayesError, match="is not an uncompressed array"):
        open_array(tmp_path / "s.zarr", "x")


def test_damage_is_told(tmp_path):
    array = _group(tmp_path / "s.zarr")
    array.write(np.zeros((5, 7)), (0, 0))
    chunk = tmp_path / "s.zarr" / "x" / "c" / "1" / "1"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(DriftbayesError, match="is damaged: it has 51 bytes, expected 52"):
        array.read()
    (tmp_path / "s.zarr" / "x" / "zarr.json").write_text(json.dumps({"zarr_format": 3}))
    with pytest.raises(DriftbayesError, match="is damaged"):
        open_array(tmp_path / "s.zarr", "x")
    (tmp_path / "s.zarr" / "zarr.json").write_text("[]")
    with pytest.raises(DriftbayesError, match="JSON object"):
        read_attributes(tmp_path / "s.zarr")
    assert not is_group(tmp_path)
    with pytest.raises(DriftbayesError, match="expected a Zarr store"):
        read_attributes(tmp_path)


def test_a_flipped_bit_is_found_by_us_and_by_the_library(tmp_path):
    array = _group(tmp_path / "s.zarr")
    array.write(np.ones((5, 7)), (0, 0))
    chunk = tmp_path / "s.zarr" / "x" / "c" / "1" / "1"
    raw = bytearray(chunk.read_bytes())
    raw[7] ^= 0x10
    chunk.write_bytes(raw)
    with pytest.raises(DriftbayesError, match=r"chunk c/1/1 of 'x' is damaged: its checksum"):
        array.read()
    with pytest.raises(ValueError, match="checksum"):
        zarr.open_group(tmp_path / "s.zarr", mode="r")["x"][:]


def test_a_store_without_checksums_is_read_and_written(tmp_path):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    values = np.random.default_rng(0).normal(size=(5, 7))
    plain = {"shape": (5, 7), "chunks": (2, 3), "dtype": "float64", "compressors": None}
    group.create_array("x", filters=None, **plain)[:] = values
    array = open_array(tmp_path / "s.zarr", "x")
    assert not array.has_checksums
    assert (array.read() == values).all()
    array.write(2 * values, (0, 0))
    assert (group["x"][:] == 2 * values).all()


@pytest.mark.parametrize("size", [*range(20), 63, 64, 65, 1000, 4099, 2**17 + 3])
def test_checksums_are_those_of_the_library(size):
    google_crc32c = pytest.importorskip("google_crc32c")
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == google_crc32c.value(data)


def test_a_checksum_by_hand():
    # From the catalogue of parametrised CRC algorithms: CRC-32/ISCSI.
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0

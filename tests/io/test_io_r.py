"""R's files, written by R 4.2: data frames and telemetry of ctmm."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes as db
from driftbayes.errors import DriftbayesError

DATA = Path(__file__).parent / "data"


def test_without_the_package_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdata", None)
    with pytest.raises(DriftbayesError, match=r"pip install 'driftbayes\[r\]', or .* write\.csv"):
        db.read(DATA / "frame.rda")


@pytest.mark.parametrize("name", ["frame.rda", "frame_xz.rda"])
def test_a_data_frame(name):
    pytest.importorskip("rdata")
    found = db.read(DATA / name)
    assert found.ids.tolist() == ["a", "b"]
    assert (found.length_unit, found.time_unit) == ("µm", "frame")
    assert_array_equal(found.times[:20], np.arange(20))
    assert_allclose(found.positions[0], [0.672, -0.192])


def test_telemetry_of_ctmm():
    pytest.importorskip("rdata")
    found = db.read(DATA / "telemetry.rds")
    assert found.ids.tolist() == ["Cilla", "Pepper"]
    assert_array_equal(np.diff(found.times[:20]), 3600)
    assert found.times[0] == np.datetime64("2024-05-01").astype("datetime64[s]").astype(int)
    assert found.lonlat is not None
    assert abs(found.lonlat[0, 1] - 50) < 0.1
    assert found.length_unit == "m"


@pytest.mark.filterwarnings("ignore::driftbayes.errors.DriftbayesWarning")
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_files_are_read_or_refused(tmp_path, damage):
    pytest.importorskip("rdata")
    import gzip

    whole = gzip.decompress((DATA / "telemetry.rds").read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(40):
        data = bytearray(whole)
        if damage == "cut":
            data = data[: rng.integers(len(data))]
        else:
            data[rng.integers(len(data))] = rng.integers(256)
        (tmp_path / "a.rds").write_bytes(gzip.compress(bytes(data)))
        with suppress(DriftbayesError):
            db.read(tmp_path / "a.rds")

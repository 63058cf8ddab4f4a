"""The public names: they are found, completed, typed, and loaded only when used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import driftbayes

SOURCE = Path(driftbayes.__file__)
# A person's own script, with one of each public thing.
SCRIPT = """
import os

import numpy as np
import pandas as pd
import xarray as xr

import driftbayes as db

os.environ["JAX_ENABLE_X64"] = "1"

tracks: db.Trajectories = db.read_trajectories("tracks.csv", time_unit="d")
table: pd.DataFrame = tracks.to_dataframe()
tracks = db.Trajectories.from_dataframe(table, columns={"id": "id"})
priors = db.scaling_priors(u_rms=1.4, timescale=1.0)
brownian = db.Hypothesis(db.Brownian, kappa=priors["kappa"])
langevin = db.Hypothesis(db.Langevin, gamma=db.Exponential(mean=1.0), k=db.Gamma(2.0, 1.0))
data: db.Displacements = db.displacements(tracks, tau=0.5, gaps="split")
result: db.Comparison = db.compare_hypotheses([brownian, langevin], data)
found: db.Evidence = result.evidences["langevin"]
mean: float = found.posterior_mean["gamma"]
frame: pd.DataFrame = result.to_dataframe()
dataset: xr.Dataset = found.to_dataset()
tree: xr.DataTree = result.to_datatree()
scanned: db.Scan = db.scan_hypotheses(tracks, [brownian, langevin], taus=[0.1, 1.0, 10.0])
db.write_scan(scanned.to_dataset(), "scan.nc")
again: xr.Dataset = db.read_scan("scan.nc")
checked: db.FitCheck = db.check_fit([langevin], data, n_replicas=200)
if found.status is not db.Status.OK:
    raise db.DriftbayesError(found.status.advice)
print(result.verdict, checked.verdict, mean, sorted(db.MODELS), tracks, db.__version__)
"""


def test_every_public_name_is_completed_and_loads():
    assert sorted(driftbayes.__all__) == dir(driftbayes)
    for name in driftbayes.__all__:
        assert getattr(driftbayes, name) is not None


def test_the_names_of_type_checkers_are_those_of_python():
    (block,) = (node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body for alias in node.names}
    assert typed | {"__version__"} == set(driftbayes.__all__)


def test_types_are_shipped():
    assert (SOURCE.parent / "py.typed").exists()


def test_a_mistyped_name_is_suggested():
    with pytest.raises(AttributeError, match="has no attribute 'Langevn'") as caught:
        driftbayes.Langevn  # noqa: B018
    assert caught.value.name == "Langevn"
    assert caught.value.obj is driftbayes


def test_completing_loads_nothing():
    code = (
        "import sys, driftbayes\n"
        "assert 'compare' in dir(driftbayes)\n"
        "print(*(m for m in ('jax', 'numpy', 'pandas', 'xarray') if m in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.slow
def test_a_strict_type_checker_accepts_a_persons_script(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    ask = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    done = subprocess.run(
        [*ask, "mine.py"], capture_output=True, encoding="utf-8", check=False, cwd=tmp_path
    )
    ours = [line for line in done.stdout.splitlines() if line.startswith("mine.py")]
    assert ours == []
    # It does look: a list where a sampling time belongs is found.
    (tmp_path / "wrong.py").write_text(SCRIPT.replace("tau=0.5", "tau=[0.5]"))
    done = subprocess.run(
        [*ask, "wrong.py"], capture_output=True, encoding="utf-8", check=False, cwd=tmp_path
    )
    assert 'error: Argument "tau" to "displacements" has incompatible type "list[' in done.stdout

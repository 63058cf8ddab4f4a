"""Evidences, comparisons and scans as tables, datasets and trees."""

import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from driftbayes.comparison import Comparison, Scan
from driftbayes.inference import QUANTILES
from made import made_evidence


def compared(tau=0.5, **changes):
    same = {"tau": tau, "data_fingerprint": f"{tau}", "units": ("km", "d")}
    pair = [
        made_evidence("brownian", -12.0, warnings=("hardly identified",), **same),
        made_evidence("langevin", -10.0, **{**same, **changes}),
    ]
    return Comparison(
        evidences={e.name: e for e in pair},
        probabilities={"brownian": 0.12, "langevin": 0.88},
        tau=tau,
        n_particles=4,
        n_steps=10,
        n_dim=2,
        n_displacements=80,
        length_unit="km",
        time_unit="d",
    )


def scanned():
    attributes = {"data_fingerprint": "whole", "options": "{}"}
    return Scan(tuple(compared(tau) for tau in (0.5, 1.0, 2.0)), {}, attributes)


def drawn():
    rng = np.random.default_rng(0)
    return made_evidence("langevin", draws=rng.random((50, 2)), seed=7)


# Tables


def test_an_evidence_is_a_table_of_parameters():
    frame = made_evidence("langevin").to_dataframe()
    assert frame["parameter"].tolist() == ["gamma", "k"]
    assert frame["unit"].tolist() == ["1/time", "length²/time"]
    assert frame["log_evidence"].tolist() == [-10.0, -10.0]
    assert [f"quantile_{q:g}" for q in QUANTILES] == [n for n in frame if "quantile" in n]
    assert frame.attrs["data_fingerprint"] == "0123456789abcdef"
    assert frame.attrs["units"]["log_evidence"] == "nat"


def test_a_comparison_is_a_table_of_models_and_parameters():
    frame = compared().to_dataframe()
    assert frame[["model", "parameter", "unit"]].values.tolist() == [
        ["brownian", "kappa", "km²/d"],
        ["langevin", "gamma", "1/d"],
        ["langevin", "k", "km²/d"],
    ]
    assert frame.groupby("model")["probability"].first().to_dict() == {
        "brownian": 0.12,
        "langevin": 0.88,
    }
    assert frame["warnings"].tolist() == ["hardly identified", "", ""]
    assert frame.attrs["units"]["tau"] == "d"


def test_a_scan_is_a_table_along_tau_too():
    made = scanned()
    frame = made.to_dataframe()
    assert len(frame) == 9
    assert frame["tau"].unique().tolist() == [0.5, 1.0, 2.0]
    assert frame["data_fingerprint"].unique().tolist() == ["0.5", "1.0", "2.0"]
    assert frame.attrs["data_fingerprint"] == "whole"
    # The same as in the dataset, value by value.
    dataset = made.to_dataset()
    for row in frame.itertuples():
        at = dataset.sel(tau=row.tau, parameter=f"{row.model}.{row.parameter}", model=row.model)
        assert row.posterior_mean == float(at["posterior_mean"])
        assert row.log_evidence == float(at["log_evidence"])
        assert row.probability == float(at["probability"])
        assert row.consistent == bool(at["consistent"])
        assert row._asdict()["status"] == str(at["status"].values)


def test_tables_of_all_three_can_be_put_below_each_other():
    one, two, many = made_evidence().to_dataframe(), compared().to_dataframe(), scanned()
    whole = pd.concat([one, two, many.to_dataframe()])
    assert list(whole)[: len(list(one))] == list(one)
    assert len(whole) == 1 + 3 + 9


def test_numbers_that_are_not_stay_so():
    nan = float("nan")
    frame = compared(log_evidence_err=nan, map={"gamma": nan, "k": 1.0}).to_dataframe()
    assert math.isnan(frame["log_evidence_err"][1])
    assert math.isnan(frame["map"][1])


# Datasets and trees


def test_an_evidence_is_a_dataset_along_its_parameters():
    made = made_evidence("langevin").to_dataset()
    assert made["parameter"].values.tolist() == ["gamma", "k"]
    assert made["unit"].values.tolist() == ["1/time", "length²/time"]
    assert float(made["log_evidence"]) == -10.0
    assert made["posterior_quantile"].dims == ("parameter", "quantile")
    assert made["posterior_cov"].sel(parameter="gamma", other="k") == 0
    assert made.attrs["data_fingerprint"] == "0123456789abcdef"


def test_a_comparison_is_a_dataset_without_tau():
    made = compared().to_dataset()
    assert "tau" not in made.dims
    assert float(made["tau"]) == 0.5
    assert made["unit"].values.tolist() == ["km²/d", "1/d", "km²/d"]
    assert float(made["log_bayes_factor"].sel(pair="langevin:brownian")) == 2.0
    assert made.attrs["data_fingerprint"] == "0.5"
    assert "consistency" not in made.attrs


def test_an_evidence_with_draws_is_a_tree_that_arviz_takes():
    arviz = pytest.importorskip("arviz_stats")
    tree = drawn().to_datatree()
    assert set(tree.children) == {"summary", "posterior"}
    assert tree["posterior"]["gamma"].dims == ("chain", "draw")
    assert tree["posterior"]["gamma"].attrs["units"] == "1/time"
    assert tree.attrs["log_evidence"] == -10.0
    table = arviz.summary(tree, kind="stats")
    assert table.index.tolist() == ["gamma", "k"]


def test_an_evidence_without_draws_is_a_tree_without_a_posterior():
    assert set(made_evidence().to_datatree().children) == {"summary"}


def test_a_comparison_is_a_tree_of_models_that_can_be_written(tmp_path):
    tree = compared().to_datatree()
    assert set(tree.children) == {"comparison", "brownian", "langevin"}
    tree.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as back:
        assert back.attrs["data_fingerprint"] == "0.5"
        assert float(back["langevin/summary"]["log_evidence"]) == -10.0


def test_a_slash_in_a_name_makes_no_group():
    named = Comparison({"a/b": made_evidence()}, {"a/b": 1.0}, 0.5, 1, 1, 1, 1)
    assert set(named.to_datatree().children) == {"comparison", "a_b"}

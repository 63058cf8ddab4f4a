"""Models of a user's own in scans: drawn, saved, opened, reported and copied like all others."""

import copy
import pickle

import numpy as np
import pytest

import driftbayes as db

X = np.random.default_rng(3).normal(size=(4, 41, 2)).cumsum(axis=1)


class Walk(db.Brownian):
    """Brownian motion under another name, with a parameter that is called otherwise."""

    kappa: float

    name = "walk"


# The parameter of a model of one's own need not be a diffusivity that figures know.
OWN = db.Hypothesis(db.Noise(Walk(kappa=db.Fixed(0.5)), sigma=db.Exponential(1.0)))


@pytest.fixture(scope="module")
def scan():
    return db.read(X, dt=0.5, length_unit="km", time_unit="d").scan([0.5, 1.0], models=OWN)


def test_a_single_model_without_diffusivity_is_drawn_with_its_parameters(scan):
    (axes, _) = scan.plot().axes[:2]
    assert axes.get_ylabel().startswith("σ")


def test_a_scan_of_ones_own_model_is_opened_where_the_model_is_registered(scan, tmp_path):
    scan.save(tmp_path / "own.nc")
    with pytest.raises(db.DriftbayesError, match=r"model 'walk\+noise' with parameters kappa, sig"):
        db.open_scan(tmp_path / "own.nc")
    db.MODELS["walk"] = Walk
    try:
        again = db.open_scan(tmp_path / "own.nc")
        # Another model of this name would have other numbers.
        db.MODELS["walk"] = db.Langevin
        with pytest.raises(db.DriftbayesError, match="which is not known here; register yours"):
            db.open_scan(tmp_path / "own.nc")
    finally:
        del db.MODELS["walk"]
    assert (str(again), again.to_json()) == (str(scan), scan.to_json())
    assert again.evidences("walk+noise")[0].hypothesis == OWN
    pages = []
    for result in (scan, again):
        result.report(tmp_path / "scan.html")
        pages.append((tmp_path / "scan.html").read_text())
    assert pages[0] == pages[1]


def test_a_scan_at_one_sampling_time_is_named_in_the_singular(scan):
    one = db.Scan(scan.comparisons[:1])
    assert repr(one) == "<Scan: tau = 0.5 d, walk+noise>"
    assert "the scan has 1 sampling time, at least 3" in " ".join(str(one).split())


def drift(x, u, t, theta):
    return -theta.gamma * u


def diffusion(x, u, t, theta):
    return theta.s + 0 * u


def test_an_equation_is_copied_and_pickled():
    unit = db.Exponential(1.0)
    equation = db.Hypothesis(db.SDE(drift, diffusion, {"gamma": unit, "s": unit}, name="own"))
    values = equation.at(np.array([1.0, 2.0]))
    assert values.theta().s == 2.0
    same = copy.deepcopy(equation)
    assert (same == equation, hash(same)) == (True, hash(equation))
    again = pickle.loads(pickle.dumps(equation))
    assert (again.describe(), again.at(np.array([1.0, 2.0])).theta().s) == (same.describe(), 2.0)


@pytest.mark.parametrize(
    "make", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_results_are_copied(make, scan):
    records = [scan, scan.comparisons[0], scan.comparisons[0]["walk+noise"]]
    for record in records:
        assert str(make(record)) == str(record)
    methods = [db.Bridge(draws=100), db.Exact(tolerance=1e-4)]
    equal = [OWN, *OWN.priors.values(), db.Normal(1, 2), *methods, db.Cut(n_tau=3)]
    for value in equal:
        assert make(value) == value
        assert hash(make(value)) == hash(value)

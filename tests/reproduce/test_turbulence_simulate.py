"""The whole way at a small size: runs, summaries, results, analysis; killed and gone on with."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError, displacements, read_trajectories
from driftbayes.comparison import scan_displacements
from driftbayes.reproduce.study import Runner
from driftbayes.reproduce.turbulence.analysis import analyse, data_sets, wishart_moments
from driftbayes.reproduce.turbulence.experiment import Experiment, strides
from driftbayes.reproduce.turbulence.results import simulate, write_results
from driftbayes.reproduce.turbulence.summary import both_models, n_steps_of, pack, unpack
from driftbayes.turbulence.config import RunConfig

SMALL = RunConfig(
    grid=32,
    dt=0.01,
    spin_up=4.0,
    duration=40.0,
    particles=50,
    record_every=0.04,
    diagnose_every=0.4,
    snapshot_every=0.8,
    k_f=6.0,
    epsilon=0.01,
)
BRANCH = SMALL.changed(start="given", spin_up=0.0, duration=4.0, particles=100, seed=5)
TINY = Experiment(
    realisations={"a": SMALL.changed(seed=1), "b": SMALL.changed(seed=2, precision="single")},
    branches={"bilinear": BRANCH, "quintic": BRANCH.changed(interpolation="quintic")},
    branch_from="a",
    tau_range=(0.15, 1.5),
    n_taus=8,
    n_groups=5,
    max_windows=4,
    n_shown=10,
    shown_time=2.0,
)


@pytest.fixture(autouse=True, scope="module")
def usual_promotion():
    # As for the simulator's own tests.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Stopped in the middle of the second run, and called again."""
    path = tmp_path_factory.mktemp("experiment")

    def stop(name, done, total):
        if name == "b" and done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(path, TINY, runner=Runner(progress=stop))
    simulate(path, TINY)
    return path


@pytest.fixture(scope="module")
def results(folder):
    return write_results(simulate(folder, TINY), folder / "results")


@pytest.mark.slow
def test_nothing_is_run_twice(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.glob("summaries/*.nc")}
    assert {path.stem for path in before} == {"a", "b", "branches"}
    simulate(folder, TINY)
    assert before == {path: path.stat().st_mtime_ns for path in folder.glob("summaries/*.nc")}


@pytest.mark.parametrize("windows", ["first", "all"])
@pytest.mark.slow
def test_results_give_the_evidence_of_the_trajectories(folder, results, windows):
    """The packaged route against the one that a user would take, fingerprints included."""
    trajectories = read_trajectories(folder / "runs" / "a")
    summary = results.realisations["a"]
    taus = summary["tau"].values[[0, -1]]
    data = [displacements(trajectories, tau, n_tau=25, windows=windows) for tau in taus]
    expected = scan_displacements(data, both_models())
    first, whole = data_sets(summary, n_particles=50)
    scan = scan_displacements(first if windows == "first" else whole, both_models())
    for i, place in enumerate([0, -1]):
        for model in ("brownian", "langevin"):
            ours, theirs = scan.evidences(model)[place], expected.evidences(model)[i]
            assert_allclose(ours.log_evidence, theirs.log_evidence, rtol=1e-10)
            assert ours.data_fingerprint == theirs.data_fingerprint


@pytest.mark.slow
def test_windows_and_groups_have_their_own_estimates(results):
    for dataset in results.realisations.values():
        owners = dataset["window_tau_index"].values
        counts = np.bincount(owners, minlength=dataset.sizes["tau"])
        assert (counts == np.minimum(dataset["n_windows"].values, 4)).all()
        for name in ("log_kappa", "log_gamma", "log_k", "log_bayes_factor"):
            assert np.isfinite(dataset[f"window_{name}"].values).all()
            assert dataset[f"jackknife_{name}"].shape == (dataset.sizes["tau"], 5)
        # The first window is the paper's data set, whichever way it is reached.
        first = dataset["window_log_kappa"].values[np.searchsorted(owners, [0, 3])]
        variance = np.diagonal(unpack(dataset["moment_first"].values), axis1=1, axis2=2).mean(1)
        by_hand = np.log(variance / (50 * 2) / (2 * dataset["tau"].values))
        assert_allclose(first, by_hand[[0, 3]], atol=0.01)


@pytest.mark.slow
def test_branches_part_only_where_they_differ(results):
    branches = results.branches
    assert list(branches["branch"].values) == ["bilinear", "quintic"]
    # Particles do not act on the flow.
    assert np.abs(branches["vorticity_difference"].values).max() == 0.0
    separation = branches["separation"].values
    assert (separation[0] == 0).all()
    assert separation[1, 0] == 0
    assert 0 < separation[1, 1] < separation[1, -1]


@pytest.mark.slow
def test_one_realisation_has_no_spread(results):
    alone = replace(results, realisations={"a": results.realisations["a"]})
    with pytest.raises(DriftbayesError, match="at least two of them, got 1"):
        analyse(alone)


def test_strides_are_distinct_and_cover_the_range():
    chosen = strides(0.02, (0.0735, 18.37), 100)
    assert len(chosen) == len(set(chosen.tolist())) == 100
    assert (np.diff(chosen) > 0).all()
    assert chosen[0] == 4
    assert chosen[-1] == 918
    # Evenly on a logarithmic scale once they need not follow each other.
    ratio = np.diff(np.log(chosen[60:]))
    assert ratio.max() < 1.5 * ratio.min()
    assert len(strides(0.5, (1.0, 3.0), 100)) == 5


def test_packing_keeps_every_entry():
    matrices = np.random.default_rng(0).standard_normal((3, 7, 7))
    matrices += matrices.swapaxes(1, 2)
    packed = pack(matrices)
    assert packed.shape == (3, 28)
    assert n_steps_of(28) == 7
    assert (unpack(packed) == matrices).all()


def test_wishart_draws_have_the_right_mean_and_variance():
    covariance = np.array([2.0, 0.7, -0.3])
    n_rows, n_draws = 40, 20_000
    draws = wishart_moments(np.random.default_rng(1), covariance, n_rows, n_draws)
    s = covariance[np.abs(np.subtract.outer(range(3), range(3)))]
    variance = n_rows * (s**2 + np.outer(np.diagonal(s), np.diagonal(s)))
    error = np.sqrt(variance / n_draws)
    assert (np.abs(draws.mean(axis=0) - n_rows * s) < 4.5 * error).all()
    assert_allclose(draws.var(axis=0), variance, rtol=0.08)

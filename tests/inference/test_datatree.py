"""Draws as a tree: the groups ArviZ expects, the trajectory as the unit, and the figures."""

import sys
import warnings

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from court import BROWNIAN, LANGEVIN, langevin_data, with_errors
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, evidence, exact_batch
from driftbayes.inference._draws import PosteriorDraws, to_datatree
from driftbayes.likelihood import ReducedDisplacements
from sums_of import density_of

# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
SHAPE = (30, 5, 1)
N_DRAWS = 4000


def grid_draws(hypothesis, data, n, seed=0):
    """Independent draws: from a fine grid over the logarithms, each anywhere within its cell."""
    found = evidence(hypothesis, data)
    names, rng = hypothesis.names, np.random.default_rng(seed)
    axes = [found.log_mean[m] + found.log_sd[m] * np.linspace(-5, 6, 111) for m in names]
    log_theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(names))
    density = density_of(hypothesis, data)
    values = density.at(hypothesis.to_unconstrained(np.exp(log_theta))).natural + log_theta.sum(
        axis=1
    )
    weights = np.exp(values - values.max())
    places = rng.choice(len(weights), size=n, p=weights / weights.sum())
    cell = np.array([axis[1] - axis[0] for axis in axes])
    theta = np.exp(log_theta[places] + cell * rng.uniform(-0.5, 0.5, (n, len(names))))
    return PosteriorDraws(hypothesis, theta, density.terms(theta)[0], found, seed)


@pytest.fixture(scope="module")
def data():
    return langevin_data(1.0, SHAPE)


@pytest.fixture(scope="module")
def draws(data):
    return grid_draws(LANGEVIN, data, N_DRAWS)


@pytest.fixture(scope="module")
def tree(draws, data):
    return to_datatree(draws, data, prior_draws=500, seed=3)


@pytest.fixture(scope="module")
def few(draws):
    return PosteriorDraws(
        LANGEVIN, draws.theta[:300], draws.log_likelihood[:300], draws.evidence, draws.seed
    )


# --- What is in it ------------------------------------------------------------------------------


def test_groups_and_their_values(tree, draws, data):
    assert set(tree.children) == {
        "posterior",
        "sample_stats",
        "log_likelihood",
        "observed_data",
        "prior",
    }
    for i, name in enumerate(LANGEVIN.names):
        assert tree["posterior"][name].dims == ("chain", "draw")
        assert_array_equal(tree["posterior"][name].values[0], draws.theta[:, i])
    joint = draws.log_likelihood + draws.log_prior()
    assert_array_equal(tree["sample_stats"]["lp"].values[0], joint)
    assert_array_equal(tree["observed_data"]["displacements"].values, data.dx)
    assert tree.name == "langevin"


def test_log_likelihood_is_per_trajectory_and_sums_to_that_of_the_draw(tree, draws):
    pointwise = tree["log_likelihood"]["displacements"]
    assert pointwise.dims == ("chain", "draw", "trajectory")
    assert_array_equal(pointwise["trajectory"].values, np.arange(SHAPE[0]))
    assert_allclose(pointwise.sum("trajectory").values[0], draws.log_likelihood, rtol=1e-12)


def test_trajectories_keep_their_numbers():
    steps = langevin_data(1.0, (3, 5, 1))
    data = Displacements(
        dx=steps.dx,
        interval=steps.interval,
        row_sizes=steps.row_sizes,
        trajectory=np.array([12, 4, 12]),
        tau=1.0,
    )
    found = to_datatree(grid_draws(BROWNIAN, data, 50), data)
    assert found["log_likelihood"]["trajectory"].values.tolist() == [4, 12]
    assert (
        found["observed_data"]["step_trajectory"].values.tolist() == [12] * 5 + [4] * 5 + [12] * 5
    )


def test_positions_with_errors_go_by_the_state_space_engine():
    data = with_errors(langevin_data(1.0, (3, 5, 1)), 0.1)
    draws = grid_draws(BROWNIAN, data, 50)
    found = to_datatree(draws, data)
    total = found["log_likelihood"]["displacements"].sum("trajectory")
    assert_allclose(total.values[0], draws.log_likelihood, rtol=1e-12)
    assert_array_equal(found["observed_data"]["position_sd"].values, data.position_sd)


def test_root_carries_the_evidence(tree, draws, data):
    assert tree.attrs["log_evidence"] == draws.evidence.log_evidence
    assert tree.attrs["log_evidence_err"] == draws.evidence.log_evidence_err
    assert tree.attrs["log_evidence_method"] == "exact"
    assert tree.attrs["data_fingerprint"] == data.fingerprint
    assert tree.attrs["driftbayes_version"] == driftbayes.__version__


def test_prior_draws_come_from_the_prior_and_from_the_seed(tree, draws):
    gamma = tree["prior"]["gamma"].values[0]
    assert gamma.shape == (500,)
    # An exponential of mean and standard deviation 1.
    assert abs(gamma.mean() - 1) < FIVE_SIGMA / np.sqrt(500)
    again = to_datatree(draws, prior_draws=500, seed=3)
    assert_array_equal(again["prior"]["gamma"].values[0], gamma)


def test_without_data_there_is_nothing_per_trajectory(draws):
    assert set(to_datatree(draws).children) == {"posterior", "sample_stats"}


def test_other_data_are_refused(draws):
    with pytest.raises(DriftbayesError, match="not the displacements that the draws are given"):
        to_datatree(draws, langevin_data(1.0, SHAPE, seed=5))


def test_reduced_displacements_are_refused(draws):
    # Without the run-time check of annotations, which would refuse them first.
    plain = getattr(to_datatree, "__wrapped__", to_datatree)
    reduced = ReducedDisplacements(np.eye(3), 10, 1, 10, 1.0, "x")
    with pytest.raises(DriftbayesError, match="displacements themselves, got ReducedDisp"):
        plain(draws, reduced)


def test_netcdf_round_trip_keeps_values_and_attributes(tree, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "tree.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    with xr.open_datatree(path, engine="h5netcdf") as again:
        assert again.attrs == tree.attrs
        for name, group in tree.children.items():
            xr.testing.assert_identical(again[name].to_dataset().load(), group.to_dataset())


# --- ArviZ takes it -----------------------------------------------------------------------------


def test_leave_one_trajectory_out_is_that_of_exact_integration(tree, data):
    arviz_stats = pytest.importorskip("arviz_stats")
    found = arviz_stats.loo(tree, pointwise=True)
    assert found.n_data_points == SHAPE[0]
    # ln p(D_t | the others) = ln Z(all) - ln Z(all but t), by quadrature.
    dx = data.dx.reshape(SHAPE)
    others = [
        Batch.of(Displacements.from_array(np.delete(dx, t, axis=0), data.tau))
        for t in range(SHAPE[0])
    ]
    parts = np.array([e.log_evidence for e in exact_batch([LANGEVIN], Batch.stack(others))])
    expected = tree.attrs["log_evidence"] - parts
    # The estimate is -ln of the mean of 1 / p(D_t | θ) over draws: its Monte Carlo error, for each
    # trajectory and, since all share the draws, for their sum.
    fits = tree["log_likelihood"]["displacements"].values[0]
    ratio = np.exp(fits.min(axis=0) - fits)
    ratio /= ratio.mean(axis=0)
    error = ratio.std(axis=0, ddof=1) / np.sqrt(len(ratio))
    error_of_sum = ratio.sum(axis=1).std(ddof=1) / np.sqrt(len(ratio))
    assert float(found.pareto_k.max()) < 0.7
    assert np.all(np.abs(found.elpd_i.values - expected) < FIVE_SIGMA * error)
    assert abs(found.elpd - expected.sum()) < FIVE_SIGMA * error_of_sum
    # And that error is small beside what is estimated.
    assert error_of_sum < 0.3


def test_compare_ranks_by_prediction(tree, data):
    arviz_stats = pytest.importorskip("arviz_stats")
    other = to_datatree(grid_draws(BROWNIAN, data, N_DRAWS), data)
    with warnings.catch_warnings():
        # arviz-stats 0.8 sorts in place, which pandas 3.1 warns of.
        warnings.simplefilter("ignore")
        table = arviz_stats.compare({"brownian": other, "langevin": tree})
    assert list(table.index) == ["langevin", "brownian"]
    # The data are of the first, by 20 nats; both kinds of weight say so.
    assert tree.attrs["log_evidence"] - other.attrs["log_evidence"] > 10
    assert table["weight"]["langevin"] > 0.9


def test_summary_has_a_row_per_parameter(tree):
    arviz_stats = pytest.importorskip("arviz_stats")
    with warnings.catch_warnings():
        # There is no variance between the chains where there is one.
        warnings.simplefilter("ignore")
        assert list(arviz_stats.summary(tree).index) == ["gamma", "k"]


# --- Figures ------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("figure", ["plot_trace", "plot_posterior_pair"])
@pytest.mark.parametrize("name", ["langevin", "brownian"])
def test_figure_can_be_drawn(figure, name, few, data, tmp_path):
    pytest.importorskip("arviz_base")
    from driftbayes.plots import posterior

    shown = few if name == "langevin" else grid_draws(BROWNIAN, data, 300)
    made = getattr(posterior, figure)(shown)
    try:
        made.savefig(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 5000
        texts = {text.get_text() for text in made.findobj(mpl.text.Text)}
        assert set(shown.names) <= texts
    finally:
        plt.close(made)


def test_pair_shows_the_draws(few):
    pytest.importorskip("arviz_base")
    from driftbayes.plots.posterior import plot_posterior_pair

    made = plot_posterior_pair(few)
    try:
        clouds = made.findobj(mpl.collections.PathCollection)
        assert len(clouds) == 1
        assert_allclose(np.asarray(clouds[0].get_offsets()), few.theta)
    finally:
        plt.close(made)


def test_missing_arviz_plots_is_said_in_one_sentence(few, monkeypatch):
    from driftbayes.plots.posterior import plot_trace

    monkeypatch.setitem(sys.modules, "arviz_plots", None)
    with pytest.raises(DriftbayesError, match=r"pip install 'driftbayes\[arviz\]'"):
        plot_trace(few)

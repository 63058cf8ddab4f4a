"""First arrival against closed forms: reflection, images, transforms, ballistic motion."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import erfc, gamma, iv, ndtr
from scipy.stats import levy

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference._density import hypothesis_of
from driftbayes.models import Langevin, as_template
from driftbayes.prediction import _first_passage as first_passage
from driftbayes.prediction._arrival import _early, _loss, parse_target
from driftbayes.prediction._first_passage import average_law, brownian_arrival, brownian_law


@pytest.fixture(autouse=True)
def _fewer_paths(monkeypatch):
    monkeypatch.setattr(first_passage, "_N_PATHS", 4_000)


TIMES = np.array([0.3, 1.0, 4.0, 20.0])
SCALES = db.Scales(u_rms=0.7, time=2.0)


def test_the_time_to_a_line_has_the_distribution_of_levy():
    """An inverse Gaussian distribution without drift, of scale L²/(2κ)."""
    found = brownian_arrival(0.7, TIMES, 1.5)
    assert_allclose(found, levy.cdf(TIMES, scale=1.5**2 / (2 * 0.7)), rtol=1e-12)


@pytest.mark.parametrize("n_dim", [1, 3])
def test_leaving_an_interval_or_a_ball_is_a_sum_over_images(n_dim):
    n = np.arange(200)[:, None]
    z = (2 * n + 1) * 1.5 / np.sqrt(4 * 0.7 * TIMES)
    if n_dim == 1:
        known = 2 * np.sum((-1.0) ** n * erfc(z), axis=0)
    else:
        known = 2 * 1.5 / np.sqrt(np.pi * 0.7 * TIMES) * np.exp(-(z**2)).sum(axis=0)
    assert_allclose(brownian_arrival(0.7, TIMES, 1.5, "circle", n_dim), known, atol=1e-12)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
@pytest.mark.parametrize("rate", [0.05, 1.0, 8.0])
def test_leaving_a_circle_has_the_known_transform(n_dim, rate):
    """Mean of exp(-rate T) by the modified Bessel function, for any number of axes."""

    def weighted(time):
        return (
            rate * np.exp(-rate * time) * float(brownian_arrival(0.7, time, 1.5, "circle", n_dim))
        )

    found = sum(quad(weighted, a, b, epsabs=1e-12)[0] for a, b in ((1e-3, 1), (1, 10), (10, 400)))
    nu, z = 0.5 * n_dim - 1, 1.5 * np.sqrt(rate / 0.7)
    assert_allclose(found, (z / 2) ** nu / gamma(nu + 1) / iv(nu, z), rtol=1e-6)


def test_no_time_and_all_time():
    for shape in ("line", "circle"):
        assert brownian_arrival(1.0, 0.0, 2.0, shape) == 0.0
        assert brownian_arrival(1.0, 1e9, 2.0, shape) > 0.9999


@dataclass
class Draws:
    """Draws of a posterior that knows the parameters."""

    hypothesis: Hypothesis
    theta: np.ndarray

    def __len__(self):
        return len(self.theta)


def simulated(model, times, distance, shape, n_dim=2, **theta):
    hypothesis = hypothesis_of(as_template(model))
    draws = Draws(hypothesis, np.tile([theta[name] for name in hypothesis.names], (10, 1)))
    law, moved = first_passage.simulated_law(
        draws, np.array(times), (distance, shape), n_dim, (1, 2)
    )
    assert moved == 0.0
    return [law(time) for time in times]


def test_without_decorrelation_particles_go_straight():
    """x = U t: the line is reached by those with U > L/T, the circle with |U| > R/T."""
    gamma_, k = 1e-5, 1e5
    for time, shape in ((0.5, "line"), (2.0, "circle")):
        z = 1.5 / (np.sqrt(gamma_ * k) * time)
        known = ndtr(-z) if shape == "line" else np.exp(-(z**2) / 2)
        ((p, error),) = simulated(Langevin, [time], 1.5, shape, gamma=gamma_, k=k)
        assert abs(p - known) < 4 * error


def test_paths_with_memory_arrive_as_those_in_shorter_steps_by_another_scheme():
    """Velocities by Euler's scheme in steps of a thousandth, positions by the trapezoidal rule."""
    rng = np.random.default_rng(3)
    n, end, step = 2_000, 6.0, 0.002
    u, x = rng.normal(size=(n, 2)), np.zeros((n, 2))
    line, circle = np.zeros(n, bool), np.zeros(n, bool)
    for _ in range(round(end / step)):
        new = u - u * step + np.sqrt(2 * step) * rng.normal(size=(n, 2))
        x += 0.5 * (u + new) * step
        u = new
        line |= x[:, 0] > 2.0
        circle |= np.hypot(*x.T) > 2.0
    for shape, hit in (("line", line), ("circle", circle)):
        ((p, error),) = simulated(Langevin, [end], 2.0, shape, gamma=1.0, k=1.0)
        assert abs(p - hit.mean()) < 4 * np.hypot(error, np.sqrt(p * (1 - p) / n))


def test_short_memory_arrives_as_brownian_motion():
    """The difference vanishes with the memory: Milne's layer of 1.46 mean free paths at the line.

    A particle with memory arrives as a Brownian one at a line farther away by 1.4603 σ/γ, the
    constant being -ζ(1/2) (Burschka & Titulaer 1981), and spreads as if it had started 1/γ later.
    """
    gamma_ = 30.0
    ((p, error),) = simulated(Langevin, [4.0], 3.0, "line", gamma=gamma_, k=1.0)
    farther = 1.4603545 * np.sqrt(1.0 / gamma_)
    known = brownian_arrival(1.0, 4.0 - 1 / gamma_, 3.0 + farther)
    plain = brownian_arrival(1.0, 4.0, 3.0)
    assert abs(p - known) < 4 * error
    assert plain - p > 4 * error


def test_the_first_tenth_and_averages():
    law = brownian_law(np.array([0.7]), 1.5, "line", 2)
    assert_allclose(_early(law, 50.0), levy.ppf(0.1, scale=1.5**2 / 1.4), rtol=1e-5)
    assert np.isnan(_early(law, 0.2))
    both = average_law([law, lambda _: (0.5, 0.2)], [0.25, 0.75])
    assert_allclose(both(1.0), (0.25 * law(1.0)[0] + 0.375, 0.15))


def test_the_loss_of_a_wrong_probability():
    p, q = 0.3, 0.45
    known = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    assert_allclose(_loss(p, q), known, rtol=1e-12)
    assert _loss(0.3, 0.0) == np.inf
    assert _loss(1.0, 1.0) == _loss(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("square:3", "line:DISTANCE or circle:RADIUS, got 'square:3'"),
        ("line:-3", "positive"),
        ("line:3s", "length"),
    ],
)
def test_a_target_that_is_none_is_refused(text, message):
    with pytest.raises(DriftbayesError, match=message):
        parse_target(text, ("km", "d"))


def test_targets_have_units():
    assert parse_target("circle:500m", ("km", "d")) == ("circle", 0.5)
    assert parse_target("30", ("km", "d")) == ("line", 30.0)


def test_recommend_compares_arrivals(tmp_path, capsys):
    tracks = db.simulate(
        "langevin", {"gamma": 0.5, "k": 1.0}, tau=0.5, n_particles=20, n_steps=40, n_dim=2, seed=1
    )
    found = db.recommend(
        tracks, 0.5, [4.0], kappa=1.0, arrival="line:3", scales=SCALES, n_draws=200
    ).arrivals
    by_name = {own.name: own for own in found.choices}
    assert next(iter(by_name)) == "model average"
    given = by_name["random walk, K as given"]
    assert_allclose(given.probability, erfc(3 / np.sqrt(16.0)), rtol=1e-12)
    assert given.error == 0.0
    ((p, error),) = simulated(Langevin, [4.0], 3.0, "line", gamma=0.5, k=1.0)
    own = by_name["langevin"]
    # Its parameters are known to some per cent.
    assert abs(own.probability - p) < 4 * np.hypot(own.error, error) + 0.15 * p
    assert_allclose(given.ratio, given.probability / by_name["model average"].probability)
    tracks.to_dataframe().to_csv(tmp_path / "t.csv", index=False)
    words = ["recommend", str(tmp_path / "t.csv"), "--tau", "0.5", "--horizon", "4"]
    assert main([*words, "--arrival", "circle:3", "--models", "brownian"]) == 0
    assert "First arrival at a distance from the start, 3 away" in capsys.readouterr().out


def test_brownian_motion_has_the_closed_form_in_the_posterior():
    tracks = db.simulate(
        "brownian", {"kappa": 1.0}, tau=0.5, n_particles=30, n_steps=60, n_dim=2, seed=1
    )
    how = {"models": "brownian", "scales": SCALES, "n_draws": 100}
    found = db.recommend(tracks, 0.5, [1.0, 4.0], arrival="circle:3", **how)
    draws = db.predict(tracks, 0.5, [1.0, 4.0], **how).draws[0]
    for time in (1.0, 4.0):
        known = brownian_arrival(draws.theta[:, 0], time, 3.0, "circle").mean()
        own = next(c for c in found.arrivals.choices if (c.horizon, c.name) == (time, "brownian"))
        assert_allclose(own.probability, known, rtol=1e-9)

"""Goodness of fit, scores, predictions, maps, simulations and the bootstrap of ln K."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._magnitudes import as_plain, whole
from driftbayes._precision import in_double_precision
from driftbayes.data._sampling import WHOLE, Cut, snap_taus
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import cell_side, times_in
from driftbayes.errors import DriftbayesError, expect, shown
from driftbayes.inference import Method
from driftbayes.models import MODELS, AbstractModel, model_named
from driftbayes.workflow._analyses import (
    Models,
    Priors,
    Scales,
    as_tau,
    check_options,
    data_and_hypotheses,
    hypotheses_for,
)
from driftbayes.workflow._reading import FileInBlocks

if TYPE_CHECKING:
    import xarray as xr

    from driftbayes.checks import FitCheck
    from driftbayes.comparison import Bootstrap, PriorSensitivity
    from driftbayes.prediction import Forecast, Scores
    from driftbayes.space import TreeMap


@in_double_precision
def check(
    tracks: Trajectories | FileInBlocks,
    tau: float | str,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    method: Method | str = "auto",
    cut: Cut = WHOLE,
    **options: Any,
) -> "FitCheck":
    """Test the goodness of fit of each model with simulated replicas.

    A file in blocks is sampled. `tau`: sampling time, or "all". `models`, `priors`, `scales`,
    `method`, `cut` are as for `compare`. Further options: `n_replicas`, `seed`,
    `prior_probabilities` and `progress`, as for `check_fit`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> found = db.check(tracks, 0.5, models="brownian", scales=scales, n_replicas=100)
        >>> list(found.comparison.evidences)
        ['brownian']
    """
    from driftbayes.checks import check_fit

    check_options(check, options)
    if isinstance(tracks, FileInBlocks):
        tracks = tracks.sample()
    data, setup = data_and_hypotheses(tracks, tau, cut, models, priors, scales)
    times = data.start_time
    result = check_fit(setup.hypotheses, data, start_times=times, method=method, **options)
    comparison = replace(result.comparison, priors_from_data=setup.from_data)
    return replace(result, comparison=comparison)


@in_double_precision
def sensitivity(
    tracks: Trajectories,
    tau: float | str,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    method: Method | str = "auto",
    cut: Cut = WHOLE,
    **options: Any,
) -> "PriorSensitivity":
    """Compute ln K as a function of the scales of the priors.

    `tau`: sampling time, or "all". `models`, `priors`, `scales`, `method`, `cut` are as for
    `compare`. Further options: `factors` of the scales, `seed` and `progress`, as for
    `prior_sensitivity`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> found = db.sensitivity(tracks, 0.5, factors=[0.5, 1.0, 2.0], scales=scales)
        >>> found.factors.tolist()
        [0.5, 1.0, 2.0]
    """
    from driftbayes.comparison import prior_sensitivity

    check_options(sensitivity, options)
    data, setup = data_and_hypotheses(tracks, tau, cut, models, priors, scales)
    return prior_sensitivity(setup.hypotheses, data, method=method, **options)


@in_double_precision
def score(
    tracks: Trajectories,
    tau: float | str,
    *,
    times: Iterable[float | str] | str = (),
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    cut: Cut = WHOLE,
    learned: bool = False,
    **options: Any,
) -> "Scores":
    """Score predictions of each model for held-out trajectories.

    `tau`: sampling time, or "all". `times`: times over which single displacements of held-out
    trajectories are scored too. `models`, `priors`, `scales`, `cut` are as for `compare`.
    `learned`: whether to score densities learned by a network as well, which needs the extra
    `driftbayes[learned]`. Further options: `method`, `seed` and `progress`; `n_folds` for `times`
    and `learned`, and `prior_probabilities` for `times`, as for `held_out`; `training` for
    `learned`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> found = db.score(tracks, 0.5, models="brownian", scales=scales)
        >>> found.tau
        0.5
    """
    from driftbayes.prediction._scores import Scores, held_out, leave_one_out, prequential

    check_options(score, options)
    data, setup = data_and_hypotheses(tracks, tau, cut, models, priors, scales)
    training = options.pop("training", None)
    names = ("n_folds", "prior_probabilities")
    folds = {name: options.pop(name) for name in names if name in options}
    chosen = as_tau(tau, tracks)
    singles = sorted(set(times_in(times, tracks.units, "times")))
    whole_tracks = prequential(setup.hypotheses, data, **options)
    beside = None
    if learned:
        from driftbayes.learned import score_learned

        totals = {h.name: whole_tracks.total(h.name) for h in setup.hypotheses}
        given = {**options, "n_folds": folds.get("n_folds", 5), "training": training}
        beside = score_learned(data, setup.hypotheses, totals, **given)
    return Scores(
        prequential=whole_tracks,
        leave_one_out=leave_one_out(setup.hypotheses, data, **options),
        held_out=held_out(tracks, setup.hypotheses, chosen, singles, cut=cut, **folds, **options)
        if singles
        else (),
        tau=data.tau,
        length_unit=data.length_unit,
        time_unit=data.time_unit,
        data_fingerprint=data.fingerprint,
        priors_from_data=setup.from_data,
        learned=beside,
    )


@in_double_precision
def predict(
    tracks: Trajectories,
    tau: float | str,
    horizons: ArrayLike | str,
    *,
    given: Literal["others"] | None = None,
    models: Models | None = None,
    priors: Priors | None = None,
    scales: Scales | None = None,
    cut: Cut = WHOLE,
    **options: Any,
) -> "Forecast":
    """Predict the dispersion of particles under each model and their average.

    `tau`: sampling time of the fit, or "all". `horizons`: times ahead, positive and increasing,
    also as text ("1d,10d"). `given`: "others" to locate lost particles from those still observed;
    the result is then a `LostForecast`. `models`: by default "brownian, langevin", with "+flow" for
    `given`. `models`, `priors`, `scales`, `cut` are as for `compare`. Further options: `n_draws`
    (1000) from the posterior, `method` and `seed`, as for `posterior_draws`; `prior_probabilities`
    of the models; `progress`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> db.predict(tracks, 0.5, [1.0, 2.0], models="brownian", scales=scales)
        <Forecast: brownian after 1, 2, fit at tau = 0.5>
    """
    from driftbayes.comparison._bayes import model_probabilities
    from driftbayes.inference import PosteriorDraws, posterior_draws
    from driftbayes.inference._draws import check_drawable
    from driftbayes.prediction._forecast import Forecast
    from driftbayes.prediction._predict import predict as predict_spread

    check_tracks(tracks)
    check_options(predict, options)
    horizons = sorted(set(times_in(horizons, tracks.units, "horizons")))
    if given not in (None, "others"):
        raise DriftbayesError(f"given must be 'others' or None, got {shown(given)}")
    if models is None:
        models = "brownian, langevin" if given is None else "brownian+flow, langevin+flow"
    data, setup = data_and_hypotheses(tracks, tau, cut, models, priors, scales)
    if given is not None:
        from driftbayes.prediction._lost import find_lost

        # Raises before the fit, which takes longer.
        find_lost((h.model for h in setup.hypotheses), tracks, horizons, as_tau(tau, tracks))
    prior = options.pop("prior_probabilities", None)
    progress = options.pop("progress", None) or (lambda *_: None)
    options = {"n_draws": 1000, "seed": 0, **options}
    # Raises before any model is fitted.
    for hypothesis in setup.hypotheses:
        check_drawable(hypothesis)
    draws: list[PosteriorDraws] = []
    for hypothesis in setup.hypotheses:
        progress("models", len(draws), len(setup.hypotheses))
        draws.append(posterior_draws(hypothesis, data, **options))
    weights = model_probabilities([d.evidence for d in draws], prior).tolist()
    parts: dict[str, Any] = {
        "prediction": predict_spread(draws, horizons, probabilities=weights, n_dim=data.n_dim),
        "draws": tuple(draws),
        "data": data,
        "tracks": tracks,
        "tau": as_tau(tau, tracks),
        "seed": options["seed"],
        "priors_from_data": setup.from_data,
    }
    if given is None:
        return Forecast(**parts)
    from driftbayes.prediction._lost import LostForecast, predict_lost

    how = {"tau": parts["tau"], "n_paths": options["n_draws"], "seed": options["seed"]}
    lost = predict_lost(draws, tracks, horizons, probabilities=weights, **how)
    return LostForecast(**parts, lost=lost)


@in_double_precision
def map(
    tracks: Trajectories,
    tau: float | str | Iterable[float | str],
    *,
    cell: float | str | None = None,
    models: Models = "brownian+mean, langevin+mean",
    priors: Priors | None = None,
    scales: Scales | None = None,
    **options: Any,
) -> "TreeMap | xr.Dataset":
    """Map dispersion by evidence, or on a fixed grid.

    Args:
        tracks: Trajectories in two dimensions, as returned by `read`.
        tau: Sampling time; with `cell` also several. "all" uses every position at its own
            interval, for irregular times.
        cell: Side of the cells of a fixed grid, in which the models are compared one by one: "5deg"
            for longitude and latitude, "50km" or a number for a plane. By default cells are found
            by evidence, and the map is averaged over all ways to divide the region.
        models: Models, as for `compare`.
        priors: Priors, as for `compare`.
        scales: Scales of the motion, as for `compare`.
        **options: `depth`, `split`, `n_tau` and `progress`, as for `driftbayes.space.map_tree`; for
            a fixed grid `n_tau`, `seasons`, `min_windows`, `method`, `seed` and `progress`.

    Returns:
        The map; an xarray Dataset for a fixed grid.

    Raises:
        DriftbayesError: The data do not allow a map, or an option does not fit.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.map(tracks, 0.5, models="brownian", scales=db.Scales(u_rms=1.4, time=1.0))
        >>> 0 < found.probability_homogeneous <= 1
        True
    """
    check_tracks(tracks)
    check_options(map, options)
    is_all = isinstance(tau, str) and tau == "all"
    if is_all and cell is not None:
        raise DriftbayesError(
            "a fixed grid needs regular times, not tau = 'all'; give a sampling time, or omit the "
            "side of a cell (--cell) for a map by evidence"
        )
    wanted = [tau] if isinstance(tau, float | int) else [] if is_all else tau
    taus = times_in(wanted, tracks.units, "tau")
    if cell is None and not is_all and len(taus) != 1:
        raise DriftbayesError(
            f"a map by evidence needs one sampling time, got {len(taus)}; give one, or the side of "
            "a cell for a fixed grid (--cell)"
        )
    in_degrees = tracks.lonlat is not None
    side = None if cell is None else cell_side(cell, tracks.units, in_degrees=in_degrees)
    shortest = None if is_all else float(snap_taus(tracks, taus)[0])
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales, tau=shortest)
    if side is None:
        from driftbayes.space import map_tree

        grid = [name for name in ("seasons", "min_windows", "method", "seed") if name in options]
        if grid:
            raise DriftbayesError(f"{grid[0]} is for a fixed grid; give cell (--cell), or omit it")
        return map_tree(tracks, setup.hypotheses, shortest, **options)
    from driftbayes.comparison.regions import map_regions

    return map_regions(tracks, setup.hypotheses, cell=side, taus=taus, **options)


@in_double_precision
def bootstrap(
    tracks: Trajectories,
    tau: float | str,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    **options: Any,
) -> "Bootstrap":
    """Resample ln K of two models over independent units.

    `tau`: sampling time. `models`: two models. `priors`, `scales` are as for `compare`. Further
    options: `n_replicates`, `units`, `method` and `seed`, as for
    `driftbayes.comparison.bootstrap`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> len(bootstrap(tracks, 0.5, scales=scales, n_replicates=20).replicates)
        20
    """
    from driftbayes.comparison._bootstrap import bootstrap as resample

    check_options(bootstrap, options)
    at = as_tau(tau, tracks)
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales, tau=at)
    return resample(tracks, setup.hypotheses, tau, **options)


@in_double_precision
def simulate(
    model: str,
    parameters: Mapping[str, float],
    *,
    tau: float,
    n_particles: int,
    n_steps: int,
    n_dim: int = 2,
    seed: int = 0,
) -> Trajectories:
    """Simulate trajectories of a model exactly, from a stationary start at the origin.

    Args:
        model: Name of the model, with options.
        parameters: Value of each of its parameters.
        tau: Sampling time.
        n_particles: Number of particles.
        n_steps: Number of steps per particle.
        n_dim: Number of dimensions, 1 to 3.
        seed: Random seed.

    Raises:
        DriftbayesError: The model is unknown, or a parameter is missing or outside its bounds.

    Example:
        >>> import driftbayes as db
        >>> values = {"gamma": 1.0, "k": 2.0}
        >>> db.simulate("langevin", values, tau=0.5, n_particles=20, n_steps=50)
        <Trajectories: 20 in 2D, 1020 points, every 0.5>
    """
    import jax

    expect(model, str, "model", "the name of a model, for example 'langevin'")
    expect(parameters, Mapping, "parameters", "values by name, for example {'kappa': 1.0}")
    tau = as_plain(tau)
    parameters = {name: as_plain(value) for name, value in parameters.items()}
    expect(tau, int | float, "tau", "a number: simulated data have no units")
    if not 0 < tau < inf:
        raise DriftbayesError(f"tau must be a positive number, got {tau:g}")
    n_particles, n_steps = whole(n_particles, "n_particles", 1), whole(n_steps, "n_steps", 1)
    n_dim, seed = whole(n_dim, "n_dim", 1), whole(seed, "seed")
    family = model_named(model, MODELS, n_dim)
    _check_values(family, parameters)
    x = family(**parameters).simulate(
        jax.random.key(seed), n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
    )
    numbers = {"tau": tau, "particles": n_particles, "steps": n_steps, "dim": n_dim, "seed": seed}
    provenance = {"simulated": model, **parameters, **numbers}
    return Trajectories.from_arrays(np.asarray(x), dt=tau, provenance=provenance)


def _check_values(model: AbstractModel, theta: Mapping[str, float]) -> None:
    """Raise an error for parameters that are missing, unknown or outside their bounds."""
    known = model.parameters
    missing = [name for name in known if name not in theta]
    extra = [name for name in theta if name not in known]
    if missing or extra:
        wrong = f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(extra)}"
        has = f"{model.name} has parameters {', '.join(known)}; {wrong}"
        raise DriftbayesError(f"{has}; give each its value (--set)")
    for name, value in theta.items():
        # Components of a tensor may be negative; other parameters are positive.
        low = -inf if name[:1] == "h" and name[1:].isdigit() else 0.0
        # Parameters of an SDE may be negative.
        low = -inf if model.kind == "sde" and name in model.motion().parameters else low
        is_number = isinstance(value, int | float)
        # The divergence of a flow may be zero.
        if name == "divergence" and value == 0:
            continue
        if not (is_number and low < value < known[name].upper and isfinite(value)):
            bound = f" below {known[name].upper:g}" if isfinite(known[name].upper) else ""
            kind = "a finite" if low < 0 else "a positive, finite"
            raise DriftbayesError(f"{name} must be {kind} number{bound}, got {shown(value)}")

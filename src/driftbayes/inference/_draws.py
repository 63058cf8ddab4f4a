"""Draws from the posterior, and their xarray DataTree for ArviZ."""

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference._batch import Batch
from driftbayes.inference._by_trajectory import log_likelihood_per_trajectory
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import Evidence
from driftbayes.inference._evidences import evidence, infinite_reason, is_exact
from driftbayes.inference._exact import exact_draws
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._methods import Laplace, Method, as_method
from driftbayes.inference._sampled import N_DRAWS
from driftbayes.models import AbstractModel

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Parameters drawn from the posterior of one hypothesis, all equally likely.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters, (draw, parameter), in the order of the hypothesis's names.
        log_likelihood: ln p(D | θ) of each draw.
        evidence: Evidence from the same computation.
        seed: Random seed of the draws.
        quadrature: Integral that the draws come from, if any.
    """

    hypothesis: Hypothesis
    theta: FloatArray
    log_likelihood: FloatArray
    evidence: Evidence
    seed: int
    quadrature: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Show the number of draws, the model and the posterior."""
        values = ", ".join(map(repr, self.evidence.parameters.values()))
        return f"<PosteriorDraws: {len(self):,} of {self.hypothesis.name}, {values}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.hypothesis.names

    def __len__(self) -> int:
        return len(self.theta)

    @in_double_precision
    def models(self) -> AbstractModel:
        """Return the model at all draws, as one model whose fields are arrays, for `jax.vmap`."""
        return jax.vmap(self.hypothesis.at)(jnp.asarray(self.theta))

    @in_double_precision
    def log_prior(self) -> FloatArray:
        """Compute ln p(θ) of each draw."""
        return self.hypothesis.log_prior(self.theta)

    def to_datatree(self, data: Displacements | None = None, **options: Any) -> "xr.DataTree":
        """Convert to a tree for ArviZ; see the function `to_datatree`."""
        return to_datatree(self, data, **options)


def check_drawable(hypothesis: Hypothesis) -> None:
    """Raise an error if the posterior of a hypothesis cannot be sampled here."""
    if hypothesis.model.kind == "sde":
        raise DriftbayesError(
            f"{hypothesis.name} is an SDE: draws from its posterior are `evidence(...).draws`, and "
            "nothing else is drawn from it; omit it here"
        )


@in_double_precision
def posterior_draws(
    hypothesis: Hypothesis,
    data: Any,
    *,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    method: Method | str = "auto",
    **options: Any,
) -> PosteriorDraws:
    """Draw from the posterior; all draws are equally likely.

    If the evidence is integrated exactly, the draws are independent: they are proposed around the
    nodes of that integral and corrected by rejection. Laplace's method draws from its Gaussian.
    Samplers return their own draws.

    Args:
        hypothesis: Model family and prior.
        data: Displacements at one tau, complete or reduced.
        n_draws: Number of draws.
        seed: Random seed; the same seed gives the same draws.
        method: Method of the evidence, as for `evidence`.
        **options: Options of the method.

    Returns:
        The draws, with their evidence.

    Raises:
        DriftbayesError: The posterior cannot be sampled, or an option is unknown.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> posterior_draws(brownian, db.displacements(tracks, tau=0.5), n_draws=100).theta.shape
        (100, 1)
    """
    n_draws, seed = whole(n_draws, "n_draws", 1), whole(seed, "seed")
    batch = Batch.of(data, model=hypothesis.model)
    rng = np.random.default_rng([seed, zlib.crc32(hypothesis.name.encode()), 1])
    chosen = as_method(method, **options)
    check_drawable(hypothesis)
    if (reason := infinite_reason(hypothesis.model, batch)) is not None:
        raise DriftbayesError(f"{hypothesis.name}: {reason}")
    if is_exact(chosen, hypothesis, batch):
        record, theta, fits, found = exact_draws(hypothesis, batch, n_draws, rng)
        return PosteriorDraws(hypothesis, theta, fits, record, seed, found)
    record = evidence(hypothesis, batch, method=chosen, seed=seed)
    if isinstance(chosen, Laplace):
        theta = _gaussian_draws(record, hypothesis, n_draws, rng)
    else:
        theta = _sampler_draws(record, n_draws, rng)
    fits, *_ = Density(hypothesis, batch.engine(0, hypothesis.model)).terms(theta)
    return PosteriorDraws(hypothesis, theta, fits, record, seed)


def _sampler_draws(record: Evidence, n: int, rng: np.random.Generator) -> FloatArray:
    """Return draws of a sampler, drawn again at random if there are too few."""
    if record.draws is None or not np.isfinite(record.draws).all() or len(record.draws) == 0:
        raise DriftbayesError(
            f"no draws from the posterior of {record.name}: {record.status.advice}"
        )
    if n <= len(record.draws):
        return record.draws[:n]
    return record.draws[rng.integers(len(record.draws), size=n)]


def _gaussian_draws(
    record: Evidence, hypothesis: Hypothesis, n: int, rng: np.random.Generator
) -> FloatArray:
    """Draw from Laplace's Gaussian, truncated to the prior's support."""
    names = hypothesis.names
    mode = np.array([record.map[name] for name in names])
    if not (np.isfinite(mode).all() and np.isfinite(record.posterior_cov).all()):
        raise DriftbayesError(
            f"no draws from Laplace's Gaussian of {record.name}: {record.status.advice}"
        )
    signed = hypothesis.signed
    if record.coords == "log":
        sd = np.array([record.log_sd[name] for name in names])
        centre = np.array([record.log_mean[name] for name in names])
        # The covariance of a lognormal law is exp(cov) - 1 times the product of the means.
        mean = np.array([record.posterior_mean[name] for name in names])
        slope = np.where(signed, 1.0, mean)
        relative = record.posterior_cov / np.outer(slope, slope)
        cov = np.where(signed[:, None] | signed, relative, np.log1p(np.maximum(relative, -0.999)))
        cov[np.diag_indices(len(names))] = sd**2
        fresh = rng.multivariate_normal(centre, cov, size=n)
        return np.where(signed, fresh, np.exp(np.where(signed, 0.0, fresh)))
    kept = np.empty((0, len(names)))
    for _ in range(1000):
        fresh = rng.multivariate_normal(mode, record.posterior_cov, size=2 * n)
        inside = np.isfinite(hypothesis.log_prior(fresh)) & (signed | (fresh > 0)).all(axis=1)
        kept = np.concatenate([kept, fresh[inside]])
        if len(kept) >= n:
            return kept[:n]
    raise DriftbayesError(
        f"Laplace's Gaussian lies outside the prior of {hypothesis.name}; use method='auto'"
    )


_SAMPLE_DIMS = ("chain", "draw")


@in_double_precision
def to_datatree(
    draws: PosteriorDraws, data: Any = None, *, prior_draws: int = 0, seed: int = 0
) -> "xr.DataTree":
    r"""Convert draws, data and evidence of one hypothesis to a tree for ArviZ.

    Groups: `posterior` and `sample_stats` (`lp` is $\ln p(D \mid \theta)\,p(\theta)$); with data,
    `observed_data` and `log_likelihood`; with prior draws, `prior`. The log-likelihood has one
    value per trajectory and draw,

    $$\ln p(D \mid \theta) = \sum_t \ln p(D_t \mid \theta),$$

    so leave-one-out cross-validation leaves out whole trajectories. Steps of one trajectory are not
    independent: a single step would be predicted from its neighbours.

    The evidence is in the attributes of the root; model probabilities follow from it. The stacking
    weights of `arviz_stats.compare` are not model probabilities: they tell which mixture of models
    predicts a new trajectory best.

    The tree needs only xarray; write it with `to_netcdf`. Install ArviZ with
    `pip install 'driftbayes[arviz]'`.

    Args:
        draws: Equally likely draws from the posterior.
        data: The displacements that the draws are conditioned on.
        prior_draws: Number of draws from the prior to add.
        seed: Random seed of the draws from the prior.
    """
    import xarray as xr

    if data is not None:
        _check_data(draws, data)
    groups = {
        "/": xr.Dataset(attrs=_root_attributes(draws, data)),
        "/posterior": _parameters(draws, draws.theta, data),
        "/sample_stats": xr.Dataset(
            {"lp": (_SAMPLE_DIMS, (draws.log_likelihood + draws.log_prior())[None])},
            coords=_sample_coords(len(draws)),
        ),
    }
    if data is not None:
        fits = log_likelihood_per_trajectory(draws.hypothesis, draws.theta, data)
        groups["/log_likelihood"] = xr.Dataset(
            {"displacements": ((*_SAMPLE_DIMS, "trajectory"), fits[None])},
            coords={**_sample_coords(len(draws)), "trajectory": np.unique(data.trajectory)},
        )
        groups["/observed_data"] = _observed(data)
    if prior_draws:
        groups["/prior"] = _parameters(draws, _prior_theta(draws, prior_draws, seed), data)
    return xr.DataTree.from_dict(groups, name=draws.hypothesis.name)


def _check_data(draws: PosteriorDraws, data: object) -> None:
    """Raise an error if the data are not those of the draws."""
    if not isinstance(data, Displacements):
        raise DriftbayesError(
            "a log-likelihood per trajectory needs the displacements themselves, got "
            f"{type(data).__name__}; pass the Displacements, or leave data out"
        )
    if data.fingerprint != draws.evidence.data_fingerprint:
        raise DriftbayesError(
            "these are not the displacements that the draws are given: their fingerprint is "
            f"{data.fingerprint}, that of the draws' data {draws.evidence.data_fingerprint}; "
            "pass those"
        )


def _sample_coords(n: int) -> dict[str, Any]:
    """Return the coordinates of one chain of n draws."""
    return {"chain": [0], "draw": np.arange(n)}


def _parameters(
    draws: PosteriorDraws, theta: FloatArray, data: Displacements | None
) -> "xr.Dataset":
    """Convert parameters, (draw, parameter), to a dataset."""
    import xarray as xr

    units = ("", "") if data is None else (data.length_unit, data.time_unit)
    variables = {}
    for name, values in zip(draws.names, theta.T, strict=True):
        parameter = draws.hypothesis.model.parameters[name]
        attributes = {"long_name": parameter.meaning, "units": parameter.unit(*units)}
        variables[name] = (_SAMPLE_DIMS, values[None], attributes)
    return xr.Dataset(variables, coords=_sample_coords(len(theta)))


def _prior_theta(draws: PosteriorDraws, n: int, seed: int) -> FloatArray:
    """Draw parameters from the prior."""
    keys = jax.random.split(jax.random.key(seed), len(draws.names))
    priors = draws.hypothesis.priors
    columns = [
        np.asarray(priors[name].sample(key, (n,)))
        for name, key in zip(draws.names, keys, strict=True)
    ]
    return np.stack(columns, axis=1)


def _observed(data: Displacements) -> "xr.Dataset":
    """Return the steps, run after run, as in `Displacements`."""
    import xarray as xr

    run = np.repeat(np.arange(len(data.row_sizes)), data.row_sizes)
    variables: dict[str, Any] = {
        "displacements": (("step", "axis"), data.dx, {"units": data.length_unit}),
        "interval": ("step", data.interval, {"units": data.time_unit}),
        "run": ("step", run),
        "step_trajectory": ("step", data.trajectory[run]),
    }
    if data.position_sd is not None:
        variables["position_sd"] = ("position", data.position_sd, {"units": data.length_unit})
    return xr.Dataset(variables)


def _root_attributes(draws: PosteriorDraws, data: Displacements | None) -> dict[str, Any]:
    """Return evidence, priors and provenance of the draws as attributes."""
    evidence = draws.evidence
    attributes = {
        "log_evidence": evidence.log_evidence,
        "log_evidence_err": evidence.log_evidence_err,
        "log_evidence_method": evidence.method,
        "log_evidence_status": evidence.status.value,
        "data_fingerprint": evidence.data_fingerprint,
        "hypothesis": evidence.name,
        "priors": "; ".join(f"{name}={text}" for name, text in evidence.priors.items()),
        "tau": evidence.tau,
        "seed": draws.seed,
        "driftbayes_version": __version__,
        # Read by ArviZ.
        "inference_library": "driftbayes",
        "inference_library_version": __version__,
    }
    if data is not None:
        attributes |= {"length_unit": data.length_unit, "time_unit": data.time_unit}
    return attributes

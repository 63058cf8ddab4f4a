"""Posterior draws as a labelled tree, the form in which ArviZ and others take them."""

__all__ = ["to_datatree"]

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from driftbayes._version import __version__
from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference.by_trajectory import log_likelihood_per_trajectory
from driftbayes.inference.draws import PosteriorDraws
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

_SAMPLE = ("chain", "draw")


def to_datatree(
    draws: PosteriorDraws,
    data: Displacements | None = None,
    *,
    prior_draws: int = 0,
    seed: int = 0,
) -> "xr.DataTree":
    r"""Draws, data and evidence of one hypothesis, by the conventions of ArviZ.

    Groups: `posterior` and `sample_stats` (`lp` is $\ln p(D \mid \theta)\,p(\theta)$); with data,
    `observed_data` and `log_likelihood`; with prior draws, `prior`. The log-likelihood has one
    value per trajectory and draw,

    $$\ln p(D \mid \theta) = \sum_t \ln p(D_t \mid \theta),$$

    so that leave-one-out takes whole trajectories away: steps of one trajectory are not
    independent, and leaving out single ones would predict each from its neighbours.

    The evidence is in the attributes of the root. It is what model probabilities follow from;
    the weights that `arviz_stats.compare` gives (stacking) answer another question, which mixture
    predicts a new trajectory best, and are not model probabilities.

    The tree is made with xarray alone and writes itself with `to_netcdf`; ArviZ, to work with it,
    comes with `pip install 'driftbayes[arviz]'`.

    Args:
        draws: Equally likely draws from the posterior.
        data: The displacements that the draws are given.
        prior_draws: Number of draws from the prior to put beside them.
        seed: Of the draws from the prior.
    """
    import xarray as xr

    if data is not None:
        _check_data(draws, data)
    groups = {
        "/": xr.Dataset(attrs=_root_attributes(draws, data)),
        "/posterior": _parameters(draws, draws.theta, data),
        "/sample_stats": xr.Dataset(
            {"lp": (_SAMPLE, (draws.log_likelihood + draws.log_prior())[None])},
            coords=_sample_coords(len(draws)),
        ),
    }
    if data is not None:
        fits = log_likelihood_per_trajectory(draws.hypothesis, draws.theta, data)
        groups["/log_likelihood"] = xr.Dataset(
            {"displacements": ((*_SAMPLE, "trajectory"), fits[None])},
            coords={**_sample_coords(len(draws)), "trajectory": np.unique(data.trajectory)},
        )
        groups["/observed_data"] = _observed(data)
    if prior_draws:
        groups["/prior"] = _parameters(draws, _prior_theta(draws, prior_draws, seed), data)
    return xr.DataTree.from_dict(groups, name=draws.hypothesis.name)


def _check_data(draws: PosteriorDraws, data: object) -> None:
    if not isinstance(data, Displacements):
        msg = (
            "a log-likelihood per trajectory needs the displacements themselves, got "
            f"{type(data).__name__}; pass the Displacements, or leave data out"
        )
        raise DriftbayesError(msg)
    if data.fingerprint != draws.evidence.data_fingerprint:
        msg = (
            "these are not the displacements that the draws are given: their fingerprint is "
            f"{data.fingerprint}, that of the draws' data {draws.evidence.data_fingerprint}; "
            "pass those"
        )
        raise DriftbayesError(msg)


def _sample_coords(n: int) -> dict[str, Any]:
    return {"chain": [0], "draw": np.arange(n)}


def _parameters(
    draws: PosteriorDraws, theta: FloatArray, data: Displacements | None
) -> "xr.Dataset":
    import xarray as xr

    units = ("", "") if data is None else (data.length_unit, data.time_unit)
    variables = {}
    for name, values in zip(draws.names, theta.T, strict=True):
        parameter = draws.hypothesis.model.parameters[name]
        attributes = {"long_name": parameter.meaning, "units": parameter.unit(*units)}
        variables[name] = (_SAMPLE, values[None], attributes)
    return xr.Dataset(variables, coords=_sample_coords(len(theta)))


def _prior_theta(draws: PosteriorDraws, n: int, seed: int) -> FloatArray:
    keys = jax.random.split(jax.random.key(seed), len(draws.names))
    priors = draws.hypothesis.priors
    columns = [
        np.asarray(priors[name].sample(key, (n,)))
        for name, key in zip(draws.names, keys, strict=True)
    ]
    return np.stack(columns, axis=1)


def _observed(data: Displacements) -> "xr.Dataset":
    """The steps, run after run, as in `Displacements`."""
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
        # Where ArviZ looks for the same.
        "inference_library": "driftbayes",
        "inference_library_version": __version__,
    }
    if data is not None:
        attributes |= {"length_unit": data.length_unit, "time_unit": data.time_unit}
    return attributes

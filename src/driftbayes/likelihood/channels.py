"""Displacements whose axes are kept apart, and what engines collect of them."""

__all__ = [
    "ChannelMoments",
    "ChannelSteps",
    "ChannelTerms",
    "Collected",
    "channel_moments",
    "channel_moments_of",
    "channel_moments_terms",
    "channel_steps",
    "channel_steps_terms",
]

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Scalar
from driftbayes.likelihood.kalman import PaddedSteps
from driftbayes.likelihood.moments import AnyArray
from driftbayes.likelihood.toeplitz import durbin_levinson
from driftbayes.sums import WindowSums
from driftbayes.typing import FloatArray


class ChannelMoments(eqx.Module):
    r"""Second moments of regular displacements, axis against axis, and of what carries them.

    The channels are the axes of space, the duration Δt of the step, by which a mean flow is
    multiplied, and for a flow that is linear in space $(x_j - c_j)\Delta t$, with x the position at
    which the step begins. As `SecondMoments`, with one form for each pair of channels and no sum
    over axes.

    Args:
        forms: T of each group and pair of channels.
        orders: Order n - 1 of the filters of each group.
        paired: 1 where the second filter counts, 0 where it is left out.
        predicted: How many steps are predicted from 0, 1, 2, ... earlier ones.
        tau: Sampling time.
        centre: c, one number per axis; zero where positions are no channels. On the earth its
            longitude and latitude in degrees.
        turning: Angle by which the axes turn clockwise per length along x, on the earth.
        is_lonlat: Whether positions are channels, and on the earth.
    """

    forms: Float[AnyArray, "*batch group channel channel step step"]
    orders: Int[AnyArray, "*batch group"]
    paired: Float[AnyArray, "*batch group"]
    predicted: Float[AnyArray, "*batch step"]
    tau: Float[AnyArray, "*batch"]
    centre: Float[AnyArray, "*batch dim"]
    turning: Float[AnyArray, "*batch"] = eqx.field(default_factory=lambda: np.zeros(()))
    is_lonlat: bool = eqx.field(default=False, static=True)


class ChannelSteps(eqx.Module):
    """The same for irregular times: steps with the other channels as further columns.

    Args:
        steps: Padded steps, one column of `dx` per channel.
        centre: As above.
        turning: As above.
        is_lonlat: As above.
    """

    steps: PaddedSteps
    centre: Float[Array, " dim"]
    turning: Float[AnyArray, ""] = eqx.field(default_factory=lambda: np.zeros(()))
    is_lonlat: bool = eqx.field(default=False, static=True)

    @property
    def tau(self) -> Float[Array, ""]:
        """Nominal sampling time."""
        return self.steps.tau


class ChannelTerms(eqx.Module):
    r"""Of one axis the number of steps and $\ln\det S$; of all channels $R = Y^T S^{-1} Y$.

    Args:
        n: Number of steps.
        log_det: Log-determinant of the covariance of one axis.
        products: R, channel by channel, the axes first.
        n_dim: Number of axes.
    """

    n: Scalar
    log_det: Scalar
    products: Float[Array, "channel channel"] | Complex[Array, "channel channel"]
    n_dim: int = eqx.field(static=True)

    @property
    def axes(self) -> Float[Array, "dim dim"]:
        """Products of the axes."""
        return self.products[: self.n_dim, : self.n_dim]

    @property
    def seen(self) -> Float[Array, "dim regressor"]:
        """Products of the axes with the duration and its kin."""
        return self.products[: self.n_dim, self.n_dim :]

    @property
    def weights(self) -> Float[Array, "regressor regressor"]:
        """Products of the duration and its kin."""
        return self.products[self.n_dim :, self.n_dim :]


def channel_moments_terms(
    autocovariance: Float[Array, " step"], data: ChannelMoments
) -> ChannelTerms:
    """Channel terms of all runs under one autocovariance."""
    filters = durbin_levinson(autocovariance)
    data = jax.tree.map(jnp.asarray, data)
    own = filters.backward[data.orders]
    other = jnp.roll(filters.forward, 1, axis=1).at[:, 0].set(0.0)[data.orders]
    gain = jnp.einsum("gp,gabpq,gq->gab", own, data.forms, own)
    loss = jnp.einsum("gp,gabpq,gq->gab", other, data.forms, other)
    variances = filters.variances[data.orders][:, None, None]
    products = jnp.sum((gain - data.paired[:, None, None] * loss) / variances, axis=0)
    return ChannelTerms(
        n=jnp.sum(data.predicted),
        log_det=jnp.sum(data.predicted * jnp.log(filters.variances)),
        products=0.5 * (products + products.T),
        n_dim=data.centre.shape[-1],
    )


def channel_steps_terms(
    innovation: Float[Array, "run step channel"],
    variance: Float[Array, "run step"],
    data: ChannelSteps,
) -> ChannelTerms:
    """The same from innovations; whitening is linear, so it takes any column."""
    steps = data.steps
    weight = steps.valid / variance
    return ChannelTerms(
        n=jnp.sum(steps.valid),
        log_det=jnp.sum(steps.valid * jnp.log(variance)),
        products=jnp.einsum("rs,rsa,rsb->ab", weight, innovation, innovation),
        n_dim=len(data.centre),
    )


def channel_moments(data: Displacements, memory: int, *, positions: bool = False) -> ChannelMoments:
    """One pass over regular displacements; see `second_moments`.

    Args:
        data: Displacements at one tau.
        memory: Longest window.
        positions: Whether positions are channels too.
    """
    columns = _with_regressors(data, positions=positions).dx
    sums = WindowSums(memory, columns.shape[1], apart=True)
    sums.add(columns, np.cumsum(data.row_sizes) - data.row_sizes, data.row_sizes)
    return ChannelMoments(
        *sums.groups(),
        tau=np.array(data.tau),
        centre=_centre(data, positions=positions),
        turning=np.array(data.turning if positions else 0.0),
        is_lonlat=positions and data.ground is not None,
    )


def channel_moments_of(sums: WindowSums, tau: float) -> ChannelMoments:
    """Moments of displacements that were summed with the axes apart.

    Args:
        sums: Over steps, with the duration as the last column.
        tau: Sampling time.
    """
    if not sums.duration:
        msg = "these displacements were summed over axes; sum them again with the axes apart"
        raise DriftbayesError(msg)
    forms, orders, paired, predicted = sums.groups()
    # The duration was counted in steps.
    forms[:, -1] *= tau
    forms[:, :, -1] *= tau
    centre = np.zeros(sums.n_axes)
    return ChannelMoments(forms, orders, paired, predicted, np.array(tau), centre)


def channel_steps(data: Displacements, *, positions: bool = False) -> ChannelSteps:
    """Padded steps with their duration, and where they begin."""
    return ChannelSteps(
        PaddedSteps.from_displacements(_with_regressors(data, positions=positions)),
        jnp.asarray(_centre(data, positions=positions)),
        jnp.asarray(data.turning if positions else 0.0),
        positions and data.ground is not None,
    )


def _centre(data: Displacements, *, positions: bool) -> FloatArray:
    if not positions:
        return np.zeros(data.n_dim)
    return data.centre if data.ground is None else data.centre_lonlat


def _with_regressors(data: Displacements, *, positions: bool) -> Displacements:
    columns = [data.dx, data.interval]
    if positions:
        columns.append((data.origin - data.centre) * data.interval[:, None])
    return replace(data, dx=np.column_stack(columns))


class Collected(eqx.Module):
    """What an engine found for each component of a model, of all data or of one trajectory.

    Args:
        parts: Terms of each component of a mixture; of one model, one.
        excess: Sum over steps that a heavy tail asks for, else zero.
        centre: Mean position at which steps begin; zero where no model asks for it.
        turning: Angle by which the axes turn clockwise per length along x, on the earth.
        tau: Sampling time.
        is_lonlat: Whether `centre` is a longitude and a latitude.
    """

    parts: tuple[ChannelTerms, ...]
    excess: Scalar
    centre: Float[Array, " dim"]
    turning: Scalar
    tau: Scalar
    is_lonlat: bool = eqx.field(static=True)

    def component(self, index: int) -> "Collected":
        """The same with one component only."""
        return eqx.tree_at(lambda one: one.parts, self, (self.parts[index],))

"""Sums over displacements with separate axes."""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Complex, Float
from numpy.typing import NDArray

from driftbayes._jax_typing import Scalar
from driftbayes._sums import WindowSums
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._runs import make_context, with_regressors


class ChannelMoments(NamedTuple):
    r"""Second moments of regular displacements and of the regressors of a flow, by channel.

    The channels are the axes of space, the duration Δt of the step, which is the regressor of a
    mean flow, and, for a flow that is linear in space, $(x_j - c_j)\Delta t$ with x the position at
    which the step begins. There is one form per pair of channels; see `SecondMoments`.

    Args:
        forms: T of each group and pair of channels, (group, channel, channel, step, step).
        orders: Order n - 1 of the filters of each group.
        paired: 1 where the second filter is used, otherwise 0.
        predicted: Number of steps predicted from 0, 1, 2, ... earlier ones.
        tau: Sampling time.
        centre: c, one number per axis; zero if positions are not channels. On the earth, longitude
            and latitude in degrees.
        turning: Clockwise rotation of the axes per length along x, on the earth.
        is_lonlat: Whether positions are channels and on the earth.
    """

    forms: FloatArray
    orders: IntArray
    paired: FloatArray
    predicted: FloatArray
    tau: FloatArray
    centre: FloatArray
    turning: FloatArray = np.array(0.0)
    is_lonlat: NDArray[np.bool_] = np.array(False)  # noqa: FBT003


class ChannelTerms(eqx.Module):
    r"""Number of steps and $\ln\det S$ of one axis, and $R = Y^T S^{-1} Y$ of all channels.

    Args:
        n: Number of steps.
        log_det: Log-determinant of the covariance of one axis.
        products: R, with the axes as first channels.
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
        """Products of the axes with the regressors."""
        return self.products[: self.n_dim, self.n_dim :]

    @property
    def weights(self) -> Float[Array, "regressor regressor"]:
        """Products of the regressors."""
        return self.products[self.n_dim :, self.n_dim :]


def channel_moments(data: Displacements, memory: int, *, positions: bool = False) -> ChannelMoments:
    """Sum the moments of regular displacements by channel; see `second_moments`.

    Args:
        data: Displacements at one tau.
        memory: Longest window.
        positions: Whether positions are channels too.
    """
    columns = with_regressors(data, positions=positions)
    sums = WindowSums(memory, columns.shape[1], apart=True)
    sums.add(columns, data.first_steps, data.row_sizes)
    context = make_context(data, positions=positions)
    return ChannelMoments(
        *sums.groups(),
        tau=np.array(data.tau),
        centre=context.centre,
        turning=np.array(context.turning),
        is_lonlat=np.array(context.is_lonlat),
    )


def channel_moments_of(sums: WindowSums, tau: float) -> ChannelMoments:
    """Convert window sums with separate axes to moments.

    Args:
        sums: Sums over steps, with the duration as the last column.
        tau: Sampling time.
    """
    if not sums.duration:
        msg = "these displacements were summed over axes; sum them again with the axes apart"
        raise DriftbayesError(msg)
    forms, orders, paired, predicted = sums.groups()
    # The sums count durations in steps.
    forms[:, -1] *= tau
    forms[:, :, -1] *= tau
    centre = np.zeros(sums.n_axes)
    return ChannelMoments(forms, orders, paired, predicted, np.array(tau), centre)


class Collected(eqx.Module):
    """Sums of an engine for each component of a model, over all data or one trajectory.

    Args:
        parts: Terms of each component; a single model has one.
        excess: Sum over steps for heavy tails or outliers, otherwise zero.
        centre: Mean position at which steps begin; zero if not needed.
        turning: Clockwise rotation of the axes per length along x, on the earth.
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
        """Return the same sums for one component."""
        return eqx.tree_at(lambda sums: sums.parts, self, (self.parts[index],))

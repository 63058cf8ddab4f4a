"""The flow at one instant: all that its future depends on."""

__all__ = ["FlowState"]

import equinox as eqx
from jaxtyping import Array, Complex, Int, UInt32


class FlowState(eqx.Module):
    r"""Vorticity, the tendencies that AB3 remembers, and where the noise stands.

    Time is `step * dt`, never accumulated.

    Args:
        zeta: Transform of the vorticity on the half-plane, always in double precision.
        older: The tendencies $N_{n-1}$ and $N_{n-2}$.
        step: Number of steps taken.
        key: Key of the forcing's random stream.
    """

    zeta: Complex[Array, "ky kx"]
    older: tuple[Complex[Array, "ky kx"], Complex[Array, "ky kx"]]
    step: Int[Array, ""]
    key: UInt32[Array, " 2"]

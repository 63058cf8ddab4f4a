r"""Isotropic spectra and spectral transfer, summed over rings of wavenumbers."""

__all__ = ["Spectra", "shells", "spectra"]

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.grid import Grid, Modes, Points
from driftbayes.typing import IntArray


def shells(grid: Grid) -> IntArray:
    """Number of the ring, floor(|k| + 1/2), of each mode on the half-plane; corners included."""
    return np.floor(grid.kmag + 0.5).astype(np.int64)


class Spectra(eqx.Module):
    r"""Sums over rings $k - \tfrac12 \le |\mathbf k| < k + \tfrac12$, k = 0, 1, ...

    Args:
        energy: $E(k)$, per unit area; the rings sum to the energy.
        enstrophy: $Z(k)$, likewise.
        transfer: $T(k)$, rate at which advection brings energy into the ring.
        flux: $\Pi(k) = -\sum_{k' \le k} T(k')$: energy that crosses k towards small scales;
            negative where the cascade is inverse.
    """

    energy: Float[Array, " shell"]
    enstrophy: Float[Array, " shell"]
    transfer: Float[Array, " shell"]
    flux: Float[Array, " shell"]


def spectra(flow: Flow, zeta: Modes, q: Points) -> Spectra:
    """Spectra of the flow with this vorticity and velocity."""
    grid = flow.grid
    ring, inverse_k2 = shells(grid), jnp.asarray(grid.inverse_k2)
    n_rings = int(ring.max()) + 1

    def over_rings(values: Array) -> Array:
        weighted = (jnp.asarray(grid.weights / grid.n**4) * values).ravel()
        return jnp.zeros(n_rings).at[jnp.asarray(ring.ravel())].add(weighted)

    power = 0.5 * (jnp.real(zeta) ** 2 + jnp.imag(zeta) ** 2)
    gained = jnp.real(jnp.conj(zeta) * flow.tendency(q).astype(zeta.dtype)) * grid.resolved
    transfer = over_rings(inverse_k2 * gained)
    return Spectra(
        energy=over_rings(inverse_k2 * power),
        enstrophy=over_rings(power),
        transfer=transfer,
        flux=-jnp.cumsum(transfer),
    )

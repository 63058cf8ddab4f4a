"""Simulate separations from a law of relative dispersion, exactly at any sampling time."""

from dataclasses import replace

import numpy as np

from driftbayes.relative._separations import Separations

# An exponent closer to 2 than this is set to 2.
_NEAR_TWO = 1e-6


def replicate(
    data: Separations, exponent: float, diffusivity: float, *, n_copies: int = 1, seed: int = 0
) -> Separations:
    r"""Simulate pairs with the initial separations of the data.

    $r^{2-\xi}$ is a squared Bessel process up to a constant (see `density`), so each step is a
    noncentral chi-square variable. The separation vector is not simulated: `moved` is NaN.

    Args:
        data: Separations, with initial values and durations of steps.
        exponent: Exponent ξ, from 0 to 2.
        diffusivity: K at the reference separation.
        n_copies: Number of simulated pairs per pair of the data.
        seed: Random seed.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    n_steps = len(data.first)
    starts, counts = data.starts, data.counts
    kappa = diffusivity / data.reference**2
    h = 2.0 - exponent
    first = np.empty((n_copies, n_steps))
    last = np.empty((n_copies, n_steps))
    r = np.tile(data.first[starts] / data.reference, (n_copies, 1))
    for k in range(int(counts.max())):
        alive = np.flatnonzero(counts > k)
        at = starts[alive] + k
        first[:, at] = r[:, alive]
        time = data.interval[at]
        if h < _NEAR_TWO:
            kick = np.sqrt(2 * kappa * time) * rng.standard_normal((n_copies, len(at)))
            r[:, alive] *= np.exp(kappa * data.n_dim * time + kick)
        else:
            scale = 2 / (kappa * h**2 * time)
            x = rng.noncentral_chisquare(2 * data.n_dim / h, scale * r[:, alive] ** h)
            r[:, alive] = (x / scale) ** (1 / h)
        last[:, at] = r[:, alive]
    pair = data.pair + data.n_pairs * np.arange(n_copies)[:, None]
    return replace(
        data,
        first=(first * data.reference).ravel(),
        last=(last * data.reference).ravel(),
        interval=np.tile(data.interval, n_copies),
        moved=np.full(n_copies * n_steps, np.nan),
        pair=pair.ravel(),
        members=np.tile(data.members, (n_copies, 1)),
    )

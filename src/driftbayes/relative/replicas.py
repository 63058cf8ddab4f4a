"""Draw separations from a law of relative dispersion: exactly, at any sampling time."""

__all__ = ["replicate"]

from dataclasses import replace

import numpy as np

from driftbayes.relative.separations import Separations

# Below this distance from 2 an exponent is taken to be 2, of which it is no longer distinct.
_NEAR_TWO = 1e-6


def replicate(
    data: Separations, exponent: float, diffusivity: float, *, n_copies: int = 1, seed: int = 0
) -> Separations:
    r"""Pairs that begin as far apart as those of the data, and separate by a law.

    $r^{2-\xi}$ is a squared Bessel process up to a constant (see `density`), of which each step is
    a noncentral chi-square variable. The vector between the particles is not drawn: `moved` is NaN.

    Args:
        data: Where pairs begin, and how long their steps last.
        exponent: ξ, from 0 to 2.
        diffusivity: K at the reference separation.
        n_copies: Pairs drawn for each pair of the data.
        seed: Random seed.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    n_steps = len(data.first)
    starts = np.flatnonzero(np.diff(data.pair, prepend=-1))
    counts = np.diff(np.append(starts, n_steps))
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

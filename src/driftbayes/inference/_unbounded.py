r"""Models whose density is unbounded if positions repeat exactly, so that there is no evidence.

A step of exactly zero is a point mass. A model that can explain the other steps in another way can
shrink its scale c to zero, and each zero step multiplies the density by $c^{-d/2}$. Gaussian models
cannot, since the other steps would become impossible. With $n_0$ of n steps zero along all d axes:

- `+student`, whose tail explains the other steps: a non-zero step has a density proportional to
  $c^{\nu/2}$ as c → 0, with ν > 2. The evidence is infinite for $n_0 d / 2 - (n - n_0) \ge 1$, by
  the integral of $c^{-a}$ near zero.
- `+scatter`: a moving trajectory has a density proportional to $c^{1/s^2}$, for any s. The evidence
  is infinite if trajectories that never move have more than two scalar displacements.
- `*N`, where these trajectories form their own class: the evidence is infinite from two scalar
  displacements on, or from three on with noise, since σ² has to vanish with c.
- `+outliers`: if a run begins with repeats, all later positions are outliers, each of which costs a
  factor p → 0. The variance of the state falls as $V_{j+1} \sim p\,V_j^{1 + d/2}$.
"""

import numpy as np

from driftbayes._typing import IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.models import AbstractModel


def unbounded_reason(model: AbstractModel, data: Displacements) -> str | None:
    """Say why the evidence of a model is infinite for these data; None if it is finite.

    Priors are assumed to have a positive density at zero. Under other priors the evidence would be
    finite but depend only on their tail.

    Args:
        model: Any model.
        data: Displacements at one tau.
    """
    if model.kind == "trajectories":
        return _unbounded_trajectories(model, data)
    if model.kind != "steps":
        return None
    is_zero = ~np.any(data.dx, axis=1)
    leading = _leading(is_zero, data)
    n, n_zero = len(is_zero), int(is_zero.sum())
    if "tail" in model.parameters:
        if data.position_sd is not None and np.any(data.position_sd > 0):
            # Errors carry over from step to step: only leading steps are predicted exactly.
            n_zero = int(leading.sum())
        if n_zero * data.n_dim / 2 - (n - n_zero) < 1:
            return None
    elif not _outliers_diverge(leading, n - int(leading.sum()), data.n_dim):
        return None
    return (
        f"no finite evidence: {n_zero / n:.0%} of the steps are exactly zero, a "
        "point mass that makes its density grow without bound; leave out repeated positions "
        "(--qc repeated), or use a model without this option"
    )


def _unbounded_trajectories(model: AbstractModel, data: Displacements) -> str | None:
    """Say why the evidence is infinite for a model with independent trajectories."""
    owner = np.unique(data.trajectory, return_inverse=True)[1]
    moved = np.zeros(owner.max() + 1, dtype=bool)
    step_owner = np.repeat(owner, data.row_sizes)
    np.logical_or.at(moved, step_owner, np.any(data.dx, axis=1))
    if data.position_sd is not None:
        np.logical_or.at(moved, np.repeat(owner, data.row_sizes + 1), data.position_sd > 0)
    n_scalar = data.n_dim * int(np.sum(~moved[step_owner]))
    if "scatter" in model.parameters:
        is_finite = n_scalar <= 2
    else:
        is_finite = n_scalar < (3 if "sigma" in model.parameters else 2)
    if is_finite:
        return None
    n = int(np.sum(~moved))
    subject = "1 trajectory never moves" if n == 1 else f"{n} trajectories never move"
    return (
        f"no finite evidence: {subject}, a point mass that makes its density grow "
        "without bound; leave out particles that are stuck (--qc stuck), or use a model without "
        "this option"
    )


def _leading(is_zero: np.ndarray, data: Displacements) -> IntArray:
    """Count the leading zero steps of each run; none if positions have errors."""
    if data.position_sd is not None and np.any(data.position_sd > 0):
        return np.zeros(len(data.row_sizes), dtype=np.int64)
    runs = np.split(is_zero, np.cumsum(data.row_sizes)[:-1])
    return np.array([len(run) if run.all() else int(np.argmin(run)) for run in runs])


def _outliers_diverge(leading: IntArray, n_moved: int, n_dim: int) -> bool:
    """Tell whether repeats gain more powers of p → 0 than outliers and priors cost."""
    power, gained = 1.0, np.zeros(len(leading))
    for depth in range(int(leading.max(initial=0)) + 1):
        # κ and σ² stop the decrease of the variance here; further repeats gain the same each.
        beyond = np.maximum(leading - depth, 0)
        total = 0.5 * n_dim * float(np.sum(gained + beyond * power))
        if total >= n_moved + 1 + 1.5 * power:
            return True
        gained = gained + power * (leading > depth)
        power = 1 + (1 + 0.5 * n_dim) * power
        if power > 1e200:
            break
    return False

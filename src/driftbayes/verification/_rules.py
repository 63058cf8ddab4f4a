r"""Scores of an ensemble of positions against the observed one, case by case.

A case is one forecast at one lead time: M members and one observation, as vectors from the observed
position. If ensemble and observation have the same distribution, ranks are uniform and coverages
exact for every M, because the observation is ranked among M + 1 exchangeable points.
"""

import numpy as np

from driftbayes._typing import FloatArray, IntArray

# Number of elements per block of cases: 256 KiB fit in the processor's cache.
_BLOCK = 1 << 15
LOG_2PI = float(np.log(2 * np.pi))


def energy_scores(members: FloatArray) -> FloatArray:
    r"""Compute the energy score of each case, in the unit of length; smaller is better.

    $$\mathrm{ES} = \frac1M \sum_i |x_i - y| - \frac{1}{2M(M-1)} \sum_{i \ne j} |x_i - x_j|$$

    The second mean is over pairs of different members (the "fair" score): its expectation does not
    depend on M, so ensembles of different sizes can be compared.

    Args:
        members: Members relative to the observation, (case, member, axis).
    """
    n_cases, n_members, n_dim = members.shape
    out = np.empty(n_cases)
    step = max(_BLOCK // (n_members * n_dim), 1)
    half = n_members // 2
    for low in range(0, n_cases, step):
        x = np.moveaxis(members[low : low + step], 2, 0)
        twice = np.concatenate([x, x[..., :half]], axis=2)
        spread = np.zeros(x.shape[1])
        # All pairs (i, i + k), each once; for even M the last k counts each pair twice.
        for k in range(1, half + 1):
            apart = twice[..., k : k + n_members] - x
            share = 0.5 if 2 * k == n_members else 1.0
            spread += share * np.sqrt(np.einsum("dcm,dcm->cm", apart, apart)).sum(axis=1)
        away = np.sqrt(np.einsum("dcm,dcm->cm", x, x)).mean(axis=1)
        out[low : low + step] = away - spread / (n_members * (n_members - 1))
    return out


def log_scores(members: FloatArray) -> FloatArray:
    r"""Compute ln density of the observation under a Gaussian with shrunk covariance.

    Larger is better. The covariance of the members is shrunk towards an isotropic one by the
    oracle-approximating weight (Chen et al. 2010) and multiplied by 1 + 1/M for the error of the
    mean.

    Args:
        members: Members relative to the observation, (case, member, axis).
    """
    _, n_members, n_dim = members.shape
    mean = members.mean(axis=1)
    away = members - mean[:, None]
    sample = np.einsum("cmi,cmj->cij", away, away) / n_members
    covariance = (1 + 1 / n_members) * _shrunk(sample, n_members)
    _, log_det = np.linalg.slogdet(covariance)
    solved = np.linalg.solve(covariance, mean[..., None])[..., 0]
    distance = np.einsum("ci,ci->c", mean, solved)
    return np.asarray(-0.5 * (n_dim * LOG_2PI + log_det + distance))


def _shrunk(sample: FloatArray, n: int) -> FloatArray:
    """Shrink covariances towards isotropic ones with the variance of the sample."""
    n_dim = sample.shape[-1]
    trace = np.trace(sample, axis1=1, axis2=2)
    squares = np.einsum("cij,cij->c", sample, sample)
    above = (1 - 2 / n_dim) * squares + trace**2
    below = (n + 1 - 2 / n_dim) * (squares - trace**2 / n_dim)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(below > 0, np.clip(above / below, 0.0, 1.0), 1.0)
    isotropic = (trace / n_dim)[:, None, None] * np.eye(n_dim)
    mixed = (1 - weight)[:, None, None] * sample + weight[:, None, None] * isotropic
    return np.asarray(mixed * (n / (n - 1)))


def depth_ranks(members: FloatArray) -> IntArray:
    """Rank the observation among the members, from 0 (centre) to M (outermost).

    Points are ordered by Mahalanobis distance from the mean of all M + 1 points, with their
    covariance. The points are exchangeable, so ranks are uniform if ensemble and observation have
    the same distribution.

    Args:
        members: Members relative to the observation, (case, member, axis).
    """
    pooled = np.concatenate([members, np.zeros_like(members[:, :1])], axis=1)
    away = pooled - pooled.mean(axis=1, keepdims=True)
    covariance = np.einsum("cmi,cmj->cij", away, away) / pooled.shape[1]
    inverse = np.linalg.pinv(covariance, hermitian=True)
    distance = np.einsum("cmi,cij,cmj->cm", away, inverse, away)
    return np.asarray((distance[:, :-1] < distance[:, -1:]).sum(axis=1))


def coverage(ranks: IntArray, n_members: int, level: float) -> FloatArray:
    """Return the coverage indicator of each observation for the central region of a given level.

    The indicator is 1 inside, 0 outside, and fractional for the rank at the edge of the region, so
    that its mean is the level for every M if the ensemble is calibrated.
    """
    return np.asarray(np.clip(level * (n_members + 1) - ranks, 0.0, 1.0))


def variogram_scores(paths: FloatArray, observed: FloatArray) -> float:
    r"""Compute the variogram score of one forecast's path; smaller is better.

    $$\mathrm{VS} = \frac{2}{L(L-1)} \sum_{i<j} \Big(|y_i - y_j|^p
      - \frac1M \sum_m |x_{mi} - x_{mj}|^p\Big)^2 - \frac{s_{ij}^2}{M}$$

    over pairs of lead times, with p = 1/2: it is sensitive to the dependence between positions at
    different times. The last term, with the variance $s^2$ over members, makes the score fair: its
    expectation does not depend on M.

    Args:
        paths: Members' positions, (member, lead, axis).
        observed: Observed positions, (lead, axis).
    """
    n = len(observed)
    first, second = np.triu_indices(n, 1)

    def variogram(x: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(x[..., first, :] - x[..., second, :], axis=-1) ** 0.5)

    members = variogram(paths)
    error = members.var(axis=0, ddof=1) / len(members)
    return float(np.mean((variogram(observed) - members.mean(axis=0)) ** 2 - error))


def separation_skill(distance: FloatArray, travelled: FloatArray) -> float:
    r"""Compute the skill of Liu & Weisberg (2011), $\max(1 - \sum d_i / \sum l_i, 0)$.

    Larger is better.

    Args:
        distance: Distance d between the ensemble mean and the observation, by lead time.
        travelled: Length l of the observed path from the start, by lead time.
    """
    total = float(np.sum(travelled))
    return max(1 - float(np.sum(distance)) / total, 0.0) if total > 0 else float("nan")

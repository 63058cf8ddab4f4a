r"""The paper's procedure of section 4.3 in plain NumPy and SciPy: slow and independent.

It checks the package and is the baseline of its benchmarks; it imports nothing of the package. Each
log-density includes its full constant. The variance of a displacement is 2 κ τ per axis as τ → ∞.

Arguments have the same meaning in all functions: `dx` are displacements with axes (particle, step,
dim), `tau` is the sampling time $\tau > 0$, `kappa` the Brownian diffusivity $\kappa > 0$ in
length²/time, `gamma` the inverse decorrelation time $\gamma > 0$ in 1/time, `k` the long-time
Langevin diffusivity $k > 0$, `model` is "brownian" or "langevin", and `prior_means` are the means
of the exponential priors by parameter.
"""

__all__ = [
    "LaplaceResult",
    "brownian_log_likelihood",
    "exact_evidence_quadrature",
    "kalman_log_likelihood",
    "kalman_log_likelihood_irregular",
    "langevin_covariance",
    "langevin_log_likelihood",
    "laplace_evidence",
    "simulate_brownian",
    "simulate_langevin",
    "var1_matrices",
]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, expm1, factorial, inf, log, pi, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

Array: TypeAlias = NDArray[np.float64]
ModelName: TypeAlias = Literal["brownian", "langevin"]
Tolerance: TypeAlias = Literal["tight", "scipy"]

_PARAMETERS = {"brownian": ("kappa",), "langevin": ("gamma", "k")}


def brownian_log_likelihood(dx: ArrayLike, tau: float, kappa: float) -> float:
    r"""Compute the log-likelihood of the Brownian model, by particle and axis.

    $$\ln p = \sum_{p,n,i} \ln \rho_{\mathcal N}(\Delta X^{(p)}_{n,i};\, 0,\, 2\kappa\tau)$$

    Paper: [eq:brownian-likelihood].
    """
    dx = _checked(dx, tau)
    return _multivariate_normal_sum(dx, 2 * kappa * tau * np.eye(dx.shape[1]))


def langevin_covariance(n: int, tau: float, gamma: float, k: float) -> Array:
    r"""Compute the covariance S of `n` successive displacements of one axis, Langevin model.

    $$S_{ij} = 2k\tau(1 - \varphi(\gamma\tau)) \;\text{if}\; i = j, \qquad
      k\gamma\tau^2\varphi^2(\gamma\tau)\,e^{-(\lvert i-j\rvert-1)\gamma\tau} \;\text{if not}$$

    Paper: [eq:langevin-cov].
    """
    x = gamma * tau
    lags = np.arange(1, n)
    covariances = k * gamma * tau**2 * _varphi(x) ** 2 * np.exp(-(lags - 1) * x)
    return toeplitz(np.concatenate([[2 * k * tau * _varphi_complement(x)], covariances]))


def langevin_log_likelihood(dx: ArrayLike, tau: float, gamma: float, k: float) -> float:
    r"""Compute the log-likelihood of the Langevin model, by particle and axis.

    As in the paper, SciPy factorises the same S for every particle. S is nearly singular for small
    $\gamma\tau$: its condition number is about $N_\tau^2 / \gamma\tau$, and below $\gamma\tau
    \approx 10^{-8}$ (for 10 steps) SciPy rejects it. `kalman_log_likelihood` has no such limit.

    Paper: [eq:langevin-likelihood].
    """
    dx = _checked(dx, tau)
    return _multivariate_normal_sum(dx, langevin_covariance(dx.shape[1], tau, gamma, k))


def var1_matrices(tau: float, gamma: float, k: float) -> tuple[Array, Array, Array]:
    r"""Compute the matrices A, C and V of the Langevin model as a VAR(1) process, for one axis.

    $Y_n = (\Delta X_n, U_{n+1})^{\mathrm T}$ obeys $Y_n = A Y_{n-1} + \varepsilon_n$ with
    $\varepsilon_n \sim \mathcal N(0, C)$, and has the stationary variance
    $V = A V A^{\mathrm T} + C$.

    Paper: [eq:var1], [eq:var1-noise], [eq:stationary-variance].
    """
    x = gamma * tau
    transition = np.array([[0.0, _varphi(x) * tau], [0.0, exp(-x)]])
    c12 = k * (_varphi(x) * x) ** 2
    noise = np.array(
        [[2 * k * tau * _varphi_curvature(x), c12], [c12, 2 * k * gamma**2 * tau * _varphi(2 * x)]]
    )
    v12 = k * _varphi(x) * x
    stationary = np.array([[2 * k * tau * _varphi_complement(x), v12], [v12, k * gamma]])
    return transition, noise, stationary


def kalman_log_likelihood(dx: ArrayLike, tau: float, gamma: float, k: float) -> float:
    r"""Compute the log-likelihood of the Langevin model by a Kalman filter for the velocity.

    A second derivation: the joint density is the product of the densities of each displacement
    given those before it, $\mathcal N(\Delta X_n; \varphi\tau\,m_n, s_n)$, where $m_n$ is the mean
    of $U_n$ given the past. Paper: [eq:var1].
    """
    dx = _checked(dx, tau)
    innovations, variances = _innovations(dx, tau, gamma, k)
    n_series = dx.shape[0] * dx.shape[2]
    squares = np.sum(innovations**2, axis=(0, 2))
    return float(-0.5 * np.sum(n_series * np.log(2 * pi * variances) + squares / variances))


def kalman_log_likelihood_irregular(
    x: ArrayLike, times: ArrayLike, gamma: float, k: float, sd: ArrayLike = 0.0
) -> float:
    r"""Compute the log-likelihood of a Langevin trajectory at any times, with position errors.

    This is the density of $y_1, \dots, y_n$ given $y_0$, $y_i \sim \mathcal N(X(t_i), \sigma_i^2)$.
    A flat prior of the start makes it $X_0 \sim \mathcal N(y_0, \sigma_0^2)$. The initial velocity
    has its stationary distribution. `x` are observed positions with axes (time, dim), `times`
    increase, and `sd` is $\sigma_i \geq 0$ of each position, or one for all. Paper: [eq:var1].
    """
    x, times = np.asarray(x, float), np.asarray(times, float)
    if x.ndim != 2 or times.shape != x.shape[:1]:
        msg = f"x must have axes (time, dim) and times (time,), got {x.shape} and {times.shape}"
        raise ValueError(msg)
    if np.any(np.diff(times) <= 0):
        msg = f"times must increase, but the smallest step is {np.diff(times).min()}; sort x first"
        raise ValueError(msg)
    error_variance = np.broadcast_to(np.square(np.asarray(sd, float)), times.shape)

    log_likelihood = 0.0
    for y in x.T:
        mean_x, mean_u = y[0], 0.0
        # Covariance of (X, U), and its determinant as a separate number: computed as
        # var_x * var_u - cov**2 it would lose all digits for small gamma * interval.
        var_x, cov, var_u = error_variance[0], 0.0, k * gamma
        determinant = var_x * var_u
        for i in range(1, len(times)):
            transition, noise, _ = var1_matrices(times[i] - times[i - 1], gamma, k)
            b, a = transition[:, 1]
            (c11, c12), (_, c22) = noise
            # Predict. The determinant is that of a sum of two 2 x 2 matrices, written with
            # b c22 - a c12 = c12 so that only positive terms are added.
            mean_x, mean_u = mean_x + b * mean_u, a * mean_u
            determinant = (
                a**2 * determinant
                + (c11 * c22 - c12**2)
                + (var_x * c22 + 2 * cov * c12 + var_u * (b * c12 + a * (a * c11 - b * c12)))
            )
            var_x, cov, var_u = (
                var_x + 2 * b * cov + b**2 * var_u + c11,
                a * (cov + b * var_u) + c12,
                a**2 * var_u + c22,
            )
            # Observe.
            r = error_variance[i]
            s = var_x + r
            innovation = y[i] - mean_x
            log_likelihood -= 0.5 * (log(2 * pi * s) + innovation**2 / s)
            mean_x, mean_u = mean_x + var_x / s * innovation, mean_u + cov / s * innovation
            var_u = (var_u * r + determinant) / s
            var_x, cov, determinant = var_x * r / s, cov * r / s, determinant * r / s
    return float(log_likelihood)


@dataclass(frozen=True)
class LaplaceResult:
    """Result of Laplace's method in natural parameters; parameters are keyed by name.

    Args:
        log_evidence: Laplace's approximation of ln p(D | M).
        theta_map: Posterior mode.
        posterior_sd: Square roots of the diagonal of `posterior_cov`.
        posterior_cov: Inverse of the precision J, in the order of `theta_map`.
        log_likelihood_map: Log-likelihood at the posterior mode.
        log_occam: `log_evidence` minus `log_likelihood_map`.
        n_evaluations: Number of likelihood evaluations, including those of the Hessian.
        converged: Whether SciPy's optimiser converged.
    """

    log_evidence: float
    theta_map: dict[str, float]
    posterior_sd: dict[str, float]
    posterior_cov: Array
    log_likelihood_map: float
    log_occam: float
    n_evaluations: int
    converged: bool


def laplace_evidence(
    dx: ArrayLike,
    tau: float,
    model: ModelName,
    prior_means: Mapping[str, float],
    *,
    tolerance: Tolerance = "tight",
) -> LaplaceResult:
    r"""Compute the evidence by Laplace's method in natural parameters, as in section 4.3.

    $$\ln p(D \mid M) \approx \ln p(D \mid M(\theta^*)) + \ln p(\theta^* \mid M)
      - \tfrac12 \ln \det(J / 2\pi)$$

    The mode is found by L-BFGS-B with the analytic gradient (Brownian) or by Nelder--Mead
    (Langevin), from the prior means. The Hessian of the log-likelihood, which is that of the
    log-posterior, is taken by fourth-order central differences.

    `tolerance="scipy"` uses SciPy's defaults in natural units, as the paper does. "tight" adds a
    second search from there with theta in units of that point; without gradients it reaches a few
    parts in 1e7 for a few thousand displacements. Paper: [eq:laplace], [eq:occam].
    """
    dx = _checked(dx, tau)
    names, means = _prior(model, prior_means)
    n_evaluations = 0

    def log_likelihood(theta: Array) -> float:
        nonlocal n_evaluations
        n_evaluations += 1
        if model == "brownian":
            return brownian_log_likelihood(dx, tau, *theta)
        return langevin_log_likelihood(dx, tau, *theta)

    def negative_log_posterior(theta: Array) -> float:
        if np.any(theta <= 0):
            return inf
        try:
            return -(log_likelihood(theta) + _log_prior(theta, means))
        except np.linalg.LinAlgError:  # S is singular to working precision: gamma * tau → 0
            return inf

    def negative_gradient(theta: Array) -> Array:
        kappa = float(theta[0])
        slope = -dx.size / (2 * kappa) + np.sum(dx**2) / (4 * kappa**2 * tau) - 1 / means[0]
        return -np.array([slope])

    def search(start: Array, unit: Array, options: dict[str, float]) -> tuple[Array, bool]:
        def objective(u: Array) -> float:
            return negative_log_posterior(u * unit)

        if model == "brownian":
            optimum = minimize(
                objective,
                start / unit,
                jac=lambda u: unit * negative_gradient(u * unit),
                method="L-BFGS-B",
                bounds=[(1e-12, None)],
                options=options,
            )
        else:
            optimum = minimize(objective, start / unit, method="Nelder-Mead", options=options)
        return unit * optimum.x, bool(optimum.success)

    theta, converged = search(means, np.ones_like(means), {})
    if tolerance == "tight":
        tight = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 2000}
        if model == "brownian":
            tight = {"ftol": 0.0, "gtol": 1e-8}
        theta, converged = search(theta, theta, tight)

    log_likelihood_map = log_likelihood(theta)
    precision = -_hessian(log_likelihood, theta)
    if np.any(np.linalg.eigvalsh(precision) <= 0):
        at = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, theta, strict=True))
        raise ValueError(f"the log-posterior is not concave at {at}; use exact_evidence_quadrature")
    posterior_cov: Array = np.asarray(np.linalg.inv(precision), float)
    log_volume = -0.5 * np.linalg.slogdet(precision / (2 * pi))[1]
    log_occam = float(_log_prior(theta, means) + log_volume)
    return LaplaceResult(
        log_evidence=log_likelihood_map + log_occam,
        theta_map=dict(zip(names, theta.tolist(), strict=True)),
        posterior_sd=dict(zip(names, np.sqrt(np.diag(posterior_cov)).tolist(), strict=True)),
        posterior_cov=posterior_cov,
        log_likelihood_map=log_likelihood_map,
        log_occam=log_occam,
        n_evaluations=n_evaluations,
        converged=converged,
    )


def exact_evidence_quadrature(
    dx: ArrayLike, tau: float, model: ModelName, prior_means: Mapping[str, float]
) -> float:
    r"""Compute the evidence by quadrature, accurate to 1e-8 in ln p(D | M).

    Gauss--Legendre panels over $\ln\kappa$, or over $\ln\gamma$ and, inside, $\ln k$, on the ranges
    where the integrand is above $e^{-50}$ of its maximum. Panels are doubled until two successive
    results agree to 1e-9. For each $\gamma$ the log-determinant and the quadratic form of $S / k$
    come from the Kalman filter, not from the second-moment matrix, which loses digits for small
    $\gamma\tau$. Paper: [eq:evidence].
    """
    dx = _checked(dx, tau)
    _, means = _prior(model, prior_means)
    if model == "brownian":
        log_integral = _log_scale_integral(dx.size, np.sum(dx**2) / (4 * tau), 1 / means[0], 64)
        return -0.5 * dx.size * log(4 * pi * tau) - log(means[0]) + log_integral
    return _langevin_evidence(dx, tau, means)


def simulate_brownian(
    rng: np.random.Generator, n_particles: int, n_steps: int, n_dim: int, tau: float, kappa: float
) -> Array:
    r"""Simulate displacements of the Brownian model, axes (particle, step, dim).

    Paper: [eq:brownian].
    """
    return sqrt(2 * kappa * tau) * rng.standard_normal((n_particles, n_steps, n_dim))


def simulate_langevin(
    rng: np.random.Generator,
    n_particles: int,
    n_steps: int,
    n_dim: int,
    tau: float,
    gamma: float,
    k: float,
) -> Array:
    r"""Simulate displacements of the Langevin model exactly, axes (particle, step, dim).

    The velocity starts in its stationary distribution and follows the exact transition [eq:var1].
    Paper: [eq:langevin].
    """
    transition, noise, stationary = var1_matrices(tau, gamma, k)
    noise_root = np.linalg.cholesky(noise)
    u = sqrt(stationary[1, 1]) * rng.standard_normal((n_particles, n_dim))
    dx = np.empty((n_particles, n_steps, n_dim))
    for n in range(n_steps):
        eps = np.einsum("ij,jpd->ipd", noise_root, rng.standard_normal((2, n_particles, n_dim)))
        dx[:, n] = transition[0, 1] * u + eps[0]
        u = transition[1, 1] * u + eps[1]
    return dx


def _varphi(x: float) -> float:
    """Compute (1 - exp(-x)) / x."""
    return -expm1(-x) / x


def _varphi_complement(x: float) -> float:
    """Compute 1 - varphi(x), by a Taylor series below 1, where the difference loses digits."""
    if x < 1:
        return sum((-1) ** (n + 1) * x**n / factorial(n + 1) for n in range(1, 30))
    return 1 - _varphi(x)


def _varphi_curvature(x: float) -> float:
    """Compute 1 - 2 varphi(x) + varphi(2x), of order x²/3, by a Taylor series below 1."""
    if x < 1:
        return sum((-1) ** n * (2**n - 2) * x**n / factorial(n + 1) for n in range(2, 35))
    return 1 - 2 * _varphi(x) + _varphi(2 * x)


def _checked(dx: ArrayLike, tau: float) -> Array:
    """Convert displacements to an array, and check it and tau."""
    dx = np.asarray(dx, float)
    if dx.ndim != 3:
        raise ValueError(f"dx has {dx.ndim} axes, expected (particle, step, dim)")
    if not tau > 0:
        raise ValueError(f"tau must be positive, got {tau}")
    return dx


def _prior(model: str, prior_means: Mapping[str, float]) -> tuple[tuple[str, ...], Array]:
    """Return the names of the parameters and their prior means, in the same order."""
    if model not in _PARAMETERS:
        raise ValueError(f"model must be one of {sorted(_PARAMETERS)}, got {model!r}")
    names = _PARAMETERS[model]
    if set(prior_means) != set(names):
        msg = f"prior_means of {model!r} must name {sorted(names)}, got {sorted(prior_means)}"
        raise ValueError(msg)
    return names, np.array([prior_means[name] for name in names], float)


def _log_prior(theta: Array, means: Array) -> float:
    """Compute ln p(θ) of exponential priors."""
    return float(np.sum(-theta / means - np.log(means)))


def _multivariate_normal_sum(dx: Array, covariance: Array) -> float:
    """Sum the log-densities of all particles and axes."""
    mean = np.zeros(len(covariance))
    total = 0.0
    for particle in dx:
        for series in particle.T:
            total += float(multivariate_normal.logpdf(series, mean, covariance))
    return total


def _innovations(dx: Array, tau: float, gamma: float, k: float) -> tuple[Array, Array]:
    """Return the innovations of the Kalman filter, like dx, and their variance at each step."""
    transition, noise, stationary = var1_matrices(tau, gamma, k)
    b, a = transition[:, 1]
    (c11, c12), (_, c22) = noise
    mean_u, var_u = np.zeros_like(dx[:, 0]), stationary[1, 1]
    innovations, variances = np.empty_like(dx), np.empty(dx.shape[1])
    for n in range(dx.shape[1]):
        s = b**2 * var_u + c11
        innovations[:, n], variances[n] = dx[:, n] - b * mean_u, s
        mean_u = a * mean_u + (a * b * var_u + c12) / s * innovations[:, n]
        # a² var_u + c22 - (gain)² s as one fraction, with large terms cancelled by hand; evaluated
        # directly, it would lose digits for small gamma * tau.
        spread = b * c12 + a * (a * c11 - b * c12)  # variance of a ε₁ - b ε₂
        var_u = (var_u * spread + c11 * c22 - c12**2) / s
    return innovations, variances


def _hessian(f: Callable[[Array], float], theta: Array) -> Array:
    """Compute second derivatives by fourth-order central differences, steps relative to theta."""
    steps = np.diag(2e-3 * theta)
    first = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
    second = {-2: -1 / 12, -1: 16 / 12, 0: -30 / 12, 1: 16 / 12, 2: -1 / 12}
    hessian = np.empty((theta.size, theta.size))
    for i in range(theta.size):
        curvature = sum(w * f(theta + m * steps[i]) for m, w in second.items())
        hessian[i, i] = curvature / steps[i, i] ** 2
        for j in range(i):
            mixed = sum(
                wi * wj * f(theta + mi * steps[i] + mj * steps[j])
                for mi, wi in first.items()
                for mj, wj in first.items()
            )
            hessian[i, j] = hessian[j, i] = mixed / (steps[i, i] * steps[j, j])
    return hessian


_DROP = 50.0  # integrands are dropped where they are below exp(-50) of their maximum


def _log_scale_integrand(
    n: int, a: float, b: float
) -> tuple[Callable[[ArrayLike], Array], float, float, float]:
    r"""Return the integrand over the log of a diffusivity, its mode and the range to integrate.

    $\int_0^\infty \kappa^{-n/2} e^{-a/\kappa - b\kappa}\,\mathrm d\kappa$ with $\kappa = e^u$. The
    logarithm of the integrand is concave in $u$, so its range is found by walking outwards.
    """
    p = 0.5 * n - 1

    def log_integrand(u: ArrayLike) -> Array:
        return -p * np.asarray(u) - a * np.exp(-np.asarray(u)) - b * np.exp(u)

    root = sqrt(p**2 + 4 * a * b)
    kappa = 2 * a / (p + root) if p >= 0 else (root - p) / (2 * b)
    mode = log(kappa)
    below = above = 1 / sqrt(a / kappa + b * kappa)
    while log_integrand(mode - below) > log_integrand(mode) - _DROP:
        below *= 1.25
    while log_integrand(mode + above) > log_integrand(mode) - _DROP:
        above *= 1.25
    return log_integrand, mode, mode - below, mode + above


def _log_scale_integral(n: int, a: float, b: float, n_panels: int) -> float:
    """Integrate over the log of a diffusivity."""
    log_integrand, _, low, high = _log_scale_integrand(n, a, b)
    nodes, weights = _gauss_legendre_panels(low, high, n_panels)
    return _log_weighted_sum(log_integrand(nodes), weights)


def _log_weighted_sum(log_values: Array, weights: Array) -> float:
    """Compute ln of a weighted sum of exponentials."""
    peak = log_values.max()
    return float(peak + np.log(np.sum(weights * np.exp(log_values - peak))))


def _gauss_legendre_panels(low: float, high: float, n_panels: int) -> tuple[Array, Array]:
    """Return nodes and weights of 16-point Gauss--Legendre rules on panels of equal width."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(low, high, n_panels + 1)
    half = 0.5 * np.diff(edges)
    middle = 0.5 * (edges[1:] + edges[:-1])
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def _langevin_evidence(dx: Array, tau: float, means: Array) -> float:
    """Integrate over both parameters of the Langevin model."""
    mean_gamma, mean_k = means
    n_series = dx.shape[0] * dx.shape[2]

    def log_integrand(log_gamma: float, n_panels: int) -> float:
        """Compute the log of the integrand over ln γ, with k integrated out."""
        gamma = exp(log_gamma)
        innovations, variances = _innovations(dx, tau, gamma, 1.0)
        quadratic = float(np.sum(np.sum(innovations**2, axis=(0, 2)) / variances))
        log_det = n_series * float(np.sum(np.log(variances)))
        log_k_integral = _log_scale_integral(dx.size, 0.5 * quadratic, 1 / mean_k, n_panels)
        log_prior = -gamma / mean_gamma - log(mean_gamma * mean_k)
        constant = -0.5 * (dx.size * log(2 * pi) + log_det)
        return constant + log_k_integral + log_prior + log_gamma

    low, high = log(mean_gamma) - 40, log(mean_gamma) + 12
    for _ in range(3):  # each scan narrows the range to where the integrand is not negligible
        grid = np.linspace(low, high, 201)
        values = np.array([log_integrand(g, 8) for g in grid])
        kept = np.flatnonzero(values > values.max() - _DROP)
        low, high = grid[max(kept[0] - 1, 0)], grid[min(kept[-1] + 1, len(grid) - 1)]

    previous = inf
    for n_panels in (8, 16, 32, 64, 128):
        nodes, weights = _gauss_legendre_panels(low, high, n_panels)
        values = np.array([log_integrand(g, n_panels) for g in nodes])
        answer = _log_weighted_sum(values, weights)
        if abs(answer - previous) < 1e-9:
            return answer
        previous = answer
    msg = f"the integral over gamma did not converge to 1e-9 with 128 panels; it was {answer}"
    raise ArithmeticError(msg)

"""Compute the numbers in `tests/golden` with mpmath, to 50 digits, from the paper's formulas.

Run `python tools/make_golden.py` from the repository root. Nothing of the package is used but
`driftbayes.testing.reference.simulate_*`, to draw the data that are then stored with the answers.
All answers are decimal strings; `float(...)` rounds them correctly to the nearest double.

Every integral over a diffusivity has one form, and with κ = e^u one integrand:

    I(p, a, b) = ∫₀^∞ κ^(-p-1) exp(-a/κ - b κ) dκ = ∫ exp(-p u - a e^(-u) - b e^u) du
               = 2 (a/b)^(-p/2) K_p(2 √(ab)).

The trapezoid rule over u converges faster than any power of its step, so that it gives ln K and
all posterior moments of κ to any number of digits. It is checked here against mpmath's own
`besselk` and against the upward recurrence in the order.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import mpmath
import numpy as np
from mpmath import mp
from numpy.typing import NDArray

from driftbayes.testing import reference

Mpf: TypeAlias = Any  # mpmath has no type information
Case: TypeAlias = dict[str, Any]

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
DIGITS = 50
EVIDENCE_DIGITS = 25
WORKING_DIGITS = 80
SPECIAL_DIGITS = 170  # x = 1e-8 costs some 30 digits in the second derivatives; be generous
EVIDENCE_WORKING_DIGITS = 45
SEED = 20220101


def main() -> None:
    """Write the files named on the command line, or all of them."""
    makers = {
        "special": special,
        "bessel": bessel,
        "langevin_likelihood": langevin_likelihood,
        "evidence": evidence,
    }
    parser = argparse.ArgumentParser(description="Compute tests/golden/*.json with mpmath.")
    parser.add_argument("names", nargs="*", help=f"any of: {', '.join(makers)}; default all")
    for name in parser.parse_args().names or list(makers):
        if name not in makers:
            parser.error(f"no golden file {name!r}; there are {', '.join(makers)}")
        start = time.perf_counter()
        mp.dps = WORKING_DIGITS
        header, cases = makers[name]()
        write(name, header, cases)
        print(f"{name}: {len(cases)} cases in {time.perf_counter() - start:.1f} s")


def write(name: str, header: dict[str, str], cases: list[Case]) -> None:
    """Write one line per case, so that a change of one number changes one line."""
    header = {
        "made_by": "tools/make_golden.py",
        "made_with": f"mpmath {mpmath.__version__}",
        **header,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(text)}" for key, text in header.items()]
    body = ",\n".join(json.dumps(case) for case in cases)
    lines.append(f'"cases": [\n{body}\n]')
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def decimal(value: Mpf, digits: int = DIGITS) -> str:
    """Format a decimal string with a number of significant digits."""
    return str(mpmath.nstr(value, digits))


def require_close(what: str, one: Mpf, other: Mpf, digits: int) -> None:
    """Raise an error if two derivations of the same number differ."""
    if abs(one - other) > mpmath.mpf(10) ** -digits * max(1, abs(other)):
        msg = f"{what}: {decimal(one)} and {decimal(other)} differ before digit {digits}"
        raise ArithmeticError(msg)


# --- special.json ------------------------------------------------------------------------------


def special() -> tuple[dict[str, str], list[Case]]:
    """Compute [eq:varphi] and two related functions, with first and second derivatives."""
    decades = [float(f"{m}e{e}") for e in range(-8, 6) for m in (1, 2, 5)]
    xs = sorted({*decades, 1e6, 0.3, 0.45, 0.49, 0.51, 0.55, 0.7, 0.9, 1.1, 1.5, 1.9, 2.1, 3.0})
    with mp.workdps(SPECIAL_DIGITS):
        cases = [_special_case(x) for x in xs]
    header = {
        "precision": f"{DIGITS} significant digits, {SPECIAL_DIGITS} carried",
        "inputs": "x, exact float64",
        "formula": "varphi = (1 - exp(-x))/x; varphi_complement = 1 - varphi(x); "
        "q = 1 - 2 varphi(x) + varphi(2x); each a list [value, d/dx, d²/dx²]",
    }
    return header, cases


def _special_case(x: float) -> Case:
    f, f1, f2 = _varphi_and_derivatives(mpmath.mpf(x))
    g, g1, g2 = _varphi_and_derivatives(2 * mpmath.mpf(x))
    q = [1 - 2 * f + g, -2 * f1 + 2 * g1, -2 * f2 + 4 * g2]
    if x < 1:
        # (-1)^n (2^n - 2) x^n / (n+1)!, differentiated term by term.
        series = [
            mpmath.nsum(
                lambda n, j=j: (
                    (-1) ** int(n) * (mpmath.mpf(2) ** n - 2) * mpmath.ff(n, j)
                    * mpmath.mpf(x) ** (n - j) / mpmath.factorial(n + 1)
                ),
                [2, 120],
            )
            for j in range(3)
        ]  # fmt: skip
        for closed, summed in zip(q, series, strict=True):
            require_close(f"q at x = {x}", closed / summed, mpmath.mpf(1), DIGITS)
    return {
        "x": x,
        "varphi": [decimal(v) for v in (f, f1, f2)],
        "varphi_complement": [decimal(v) for v in (1 - f, -f1, -f2)],
        "q": [decimal(v) for v in q],
    }


def _varphi_and_derivatives(x: Mpf) -> tuple[Mpf, Mpf, Mpf]:
    """Compute φ and two derivatives from x φ = 1 - e^(-x), differentiated twice."""
    decay = mpmath.exp(-x)
    f = (1 - decay) / x
    f1 = (decay - f) / x
    f2 = (-decay - 2 * f1) / x
    return f, f1, f2


# --- The integral over a diffusivity -----------------------------------------------------------


class Moments(NamedTuple):
    """Logarithm of I(p, a, b) and means of functions of κ under its integrand."""

    log_integral: Mpf
    mean: Mpf
    mean_square: Mpf
    mean_inverse: Mpf
    mean_log: Mpf


def scale_moments(p: Mpf, a: Mpf, b: Mpf, digits: int) -> Moments:
    """Compute I(p, a, b) by the trapezoid rule over u = ln κ, halving steps until convergence."""
    p, a, b = mpmath.mpf(p), mpmath.mpf(a), mpmath.mpf(b)
    root = mpmath.sqrt(p**2 + 4 * a * b)
    kappa = 2 * a / (p + root) if p >= 0 else (root - p) / (2 * b)
    mode = mpmath.log(kappa)
    peak = -p * mode - a / kappa - b * kappa
    width = 1 / mpmath.sqrt(a / kappa + b * kappa)
    cutoff = -(digits + 8) * mpmath.log(10)

    def one_side(start: Mpf, step: Mpf) -> NDArray[Any]:
        """Sum the integrand times (1, κ, κ², 1/κ, u) from start outwards."""
        total = np.array([mpmath.mpf(0)] * 5)
        u, value, ratio = start, mpmath.exp(start), mpmath.exp(step)
        while (exponent := -p * u - a / value - b * value - peak) > cutoff:
            weight = mpmath.exp(exponent)
            total += weight * np.array([1, value, value**2, 1 / value, u])
            u, value = u + step, value * ratio
        return total

    step = min(width / 2, mpmath.mpf("0.1"))
    sums = one_side(mode, step) + one_side(mode - step, -step)
    previous = sums[0] * step
    for _ in range(20):
        # Nodes midway between the previous ones.
        sums = sums + one_side(mode + step / 2, step) + one_side(mode - step / 2, -step)
        step /= 2
        integral = sums[0] * step
        # The error squares with each halving, so agreement to half the digits would suffice.
        if abs(integral / previous - 1) < mpmath.mpf(10) ** (-0.7 * digits):
            return Moments(peak + mpmath.log(integral), *(sums[1:] / sums[0]))
        previous = integral
    msg = f"the trapezoid rule did not converge for p = {p}, a = {a}, b = {b}"
    raise ArithmeticError(msg)


def log_bessel_k(nu: Mpf, z: Mpf, digits: int = DIGITS) -> Mpf:
    """Compute the logarithm of K_ν(z) = ½ ∫ exp(ν u - z cosh u) du."""
    half = mpmath.mpf(z) / 2
    return scale_moments(-mpmath.mpf(nu), half, half, digits).log_integral - mpmath.log(2)


def bessel() -> tuple[dict[str, str], list[Case]]:
    """Compute modified Bessel functions of the second kind, for orders up to a million."""
    nus = [-0.5, 0.0, 0.3, 0.5, 1.0, 2.5, 10.0, 149.0, 499.0, 1499.0, 24999.0, 1e6]
    zs = [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6, 1e8]
    cases = []
    for z in zs:
        by_order = {nu: log_bessel_k(nu, z) for nu in nus}
        _check_bessel(z, by_order)
        cases += [{"nu": nu, "z": z, "log_k": decimal(by_order[nu])} for nu in nus]
    header = {
        "precision": f"{DIGITS} significant digits, {WORKING_DIGITS} carried",
        "inputs": "nu and z, exact float64",
        "formula": "K_nu(z) = 1/2 ∫ exp(nu u - z cosh u) du by the trapezoid rule; checked to 49 "
        "digits against mpmath.besselk (nu <= 2.5) and against the recurrence K_{n+1} = K_{n-1} + "
        "(2n/z) K_n (whole nu up to 24999, and 1e6 at z = 1 and z = 1e6)",
    }
    return header, cases


def _check_bessel(z: float, by_order: dict[float, Mpf]) -> None:
    """Check by second derivations: mpmath for small orders, the recurrence for integer ones."""
    for nu in (-0.5, 0.0, 0.3, 0.5, 1.0, 2.5):
        theirs = mpmath.log(mpmath.besselk(mpmath.mpf(nu), mpmath.mpf(z)))
        require_close(f"ln K_{nu}({z})", by_order[nu], theirs, 49)
    below, this = mpmath.besselk(0, mpmath.mpf(z)), mpmath.besselk(1, mpmath.mpf(z))
    for n in range(1, 10**6 if z in (1.0, 1e6) else 24999):
        below, this = this, below + 2 * n / mpmath.mpf(z) * this
        if n + 1.0 in by_order:
            require_close(f"ln K_{n + 1}({z})", by_order[n + 1.0], mpmath.log(this), 49)


# --- langevin_likelihood.json ------------------------------------------------------------------


def langevin_likelihood() -> tuple[dict[str, str], list[Case]]:
    """Compute [eq:langevin-likelihood] by Cholesky factors of S, for small and large γτ."""
    rng = np.random.default_rng(SEED)
    tau, k = 0.7, 1.3
    gammas = [x / tau for x in (1e-6, 1e-4, 1e-2, 1.0, 30.0, 1e4)]
    draws = {gamma: reference.simulate_langevin(rng, 3, 6, 2, tau, gamma, k) for gamma in gammas}
    points = [(gamma, draws[gamma], gamma, k) for gamma in gammas]
    points += [(gamma, draws[gamma], 1.3 * gamma, 0.6 * k) for gamma in gammas]
    points += [(gammas[3], draws[gammas[3]], gamma, k) for gamma in gammas if gamma != gammas[3]]
    cases = [
        {
            "tau": tau,
            "gamma": gamma,
            "k": k_,
            "dx_drawn_with_gamma": drawn_with,
            "dx": dx.tolist(),
            "log_likelihood": decimal(_log_likelihood(dx, tau, gamma, k_)),
        }
        for drawn_with, dx, gamma, k_ in points
    ]
    header = {
        "precision": f"{DIGITS} significant digits, {WORKING_DIGITS} carried",
        "inputs": "tau, gamma, k and dx (particle, step, dim), exact float64; dx drawn by "
        f"driftbayes.testing.reference.simulate_langevin, numpy default_rng({SEED})",
        "formula": "sum over particles and axes of ln N(dx; 0, S), S_ii = 2 k tau (1 - varphi(x)), "
        "S_ij = k gamma tau^2 varphi(x)^2 exp(-(|i-j|-1) x), x = gamma tau; Cholesky factor of S",
    }
    return header, cases


def _increment_correlation(n: int, tau: float, gamma: Mpf) -> list[list[Mpf]]:
    """Compute R = S / k directly from [eq:langevin-cov], with enough working digits."""
    x = gamma * mpmath.mpf(tau)
    varphi = (1 - mpmath.exp(-x)) / x
    row = [2 * mpmath.mpf(tau) * (1 - varphi)]
    row += [
        gamma * mpmath.mpf(tau) ** 2 * varphi**2 * mpmath.exp(-(m - 1) * x) for m in range(1, n)
    ]
    return [[row[abs(i - j)] for j in range(n)] for i in range(n)]


def _factor(matrix: list[list[Mpf]]) -> tuple[list[list[Mpf]], list[Mpf]]:
    """Return L and D of the factorisation L D Lᵀ, with ones on the diagonal of L."""
    n = len(matrix)
    lower = [[mpmath.mpf(int(i == j)) for j in range(n)] for i in range(n)]
    diagonal: list[Mpf] = []
    for j in range(n):
        diagonal.append(matrix[j][j] - sum(lower[j][m] ** 2 * diagonal[m] for m in range(j)))
        for i in range(j + 1, n):
            rest = sum(lower[i][m] * lower[j][m] * diagonal[m] for m in range(j))
            lower[i][j] = (matrix[i][j] - rest) / diagonal[j]
    return lower, diagonal


def _log_det_and_quadratic(series: list[list[Mpf]], tau: float, gamma: Mpf) -> tuple[Mpf, Mpf]:
    """Return ln det R, and the sum over series of yᵀ R⁻¹ y."""
    lower, diagonal = _factor(_increment_correlation(len(series[0]), tau, gamma))
    quadratic = mpmath.mpf(0)
    for y in series:
        solved: list[Mpf] = []
        for i, value in enumerate(y):
            solved.append(value - sum(lower[i][m] * solved[m] for m in range(i)))
        quadratic += sum(s**2 / d for s, d in zip(solved, diagonal, strict=True))
    return sum(mpmath.log(d) for d in diagonal), quadratic


def _as_series(dx: NDArray[np.float64]) -> list[list[Mpf]]:
    """Return one list of displacements per particle and axis."""
    return [[mpmath.mpf(float(v)) for v in axis] for particle in dx for axis in particle.T]


def _log_likelihood(dx: NDArray[np.float64], tau: float, gamma: float, k: float) -> Mpf:
    series = _as_series(dx)
    log_det, quadratic = _log_det_and_quadratic(series, tau, mpmath.mpf(gamma))
    constant = dx.size * mpmath.log(2 * mpmath.pi * mpmath.mpf(k)) + len(series) * log_det
    return -(constant + quadratic / mpmath.mpf(k)) / 2


# --- evidence.json -----------------------------------------------------------------------------


def evidence() -> tuple[dict[str, str], list[Case]]:
    """Compute [eq:evidence] of both models with exponential priors, and posterior moments."""
    rng = np.random.default_rng(SEED + 1)
    cases = [
        _brownian_case(reference.simulate_brownian(rng, *shape, tau, kappa), tau, mean)
        for shape, tau, kappa, mean in (
            ((1, 1, 1), 1.0, 1.0, 1.0),
            ((1, 2, 1), 0.3, 2.0, 5.0),
            ((3, 6, 2), 0.7, 1.3, 1.0),
            ((20, 5, 1), 10.0, 0.05, 0.03402),
            ((100, 10, 3), 1.0, 1.0, 1.0),
        )
    ]
    for tau in (0.1, 1.0, 10.0, 50.0):
        cases.append(_langevin_case(reference.simulate_langevin(rng, 20, 5, 1, tau, 1.0, 1.0), tau))
    header = {
        "precision": f"significant digits: brownian {DIGITS} (sd 40, information_gain 45), "
        f"{WORKING_DIGITS} carried; langevin log_evidence {EVIDENCE_DIGITS}, means 20, sd and "
        f"information_gain 18, {EVIDENCE_WORKING_DIGITS} carried",
        "inputs": "tau, prior_means and dx (particle, step, dim), exact float64; dx drawn by "
        f"driftbayes.testing.reference.simulate_*, numpy default_rng({SEED + 1})",
        "formula": "brownian: Z = (4 pi tau)^(-n/2) / mu * 2 (a/b)^(nu/2) K_nu(2 sqrt(ab)), "
        "nu = 1 - n/2, a = sum dx^2 / (4 tau), b = 1/mu. langevin: S = k R(gamma); k integrated as "
        "for brownian with a = sum dx R^-1 dx / 2, gamma by mpmath.quad over ln gamma, in two "
        "different divisions of the range. information_gain = E[ln L] - ln Z over the posterior",
    }
    return header, cases


def _brownian_case(dx: NDArray[np.float64], tau: float, prior_mean: float) -> Case:
    n, mean = dx.size, mpmath.mpf(prior_mean)
    a = sum(mpmath.mpf(float(v)) ** 2 for v in dx.flat) / (4 * mpmath.mpf(tau))
    nu, b = 1 - mpmath.mpf(n) / 2, 1 / mean
    log_constant = -mpmath.mpf(n) / 2 * mpmath.log(4 * mpmath.pi * mpmath.mpf(tau))
    log_bessel = log_bessel_k(abs(nu), 2 * mpmath.sqrt(a * b))
    log_evidence = (
        log_constant - mpmath.log(mean) + mpmath.log(2) + nu / 2 * mpmath.log(a / b) + log_bessel
    )
    moments = scale_moments(-nu, a, b, DIGITS)
    direct = log_constant - mpmath.log(mean) + moments.log_integral
    require_close("brownian evidence", log_evidence, direct, 49)
    expected = log_constant - n * moments.mean_log / 2 - a * moments.mean_inverse
    return {
        "model": "brownian",
        "tau": tau,
        "prior_means": {"kappa": prior_mean},
        "log_evidence": decimal(log_evidence),
        "posterior_mean": {"kappa": decimal(moments.mean)},
        "posterior_sd": {
            "kappa": decimal(mpmath.sqrt(moments.mean_square - moments.mean**2), DIGITS - 10)
        },
        "expected_log_likelihood": decimal(expected),
        "information_gain": decimal(expected - log_evidence, DIGITS - 5),
        "dx": dx.tolist(),
    }


def _langevin_case(dx: NDArray[np.float64], tau: float) -> Case:
    """Integrate the joint density with Exp(1) priors over k inside and over ln γ outside."""
    mp.dps = EVIDENCE_WORKING_DIGITS
    inner_digits = EVIDENCE_DIGITS + 8
    series, n = _as_series(dx), dx.size

    @cache
    def integrands(log_gamma: Mpf) -> tuple[Mpf, NDArray[Any]]:
        """Return ln ∫ joint dk, and means given γ of (1, γ, γ², k, k², γk, ln L)."""
        gamma = mpmath.exp(log_gamma)
        log_det, quadratic = _log_det_and_quadratic(series, tau, gamma)
        constant = -(n * mpmath.log(2 * mpmath.pi) + len(series) * log_det) / 2
        over_k = scale_moments(mpmath.mpf(n) / 2 - 1, quadratic / 2, mpmath.mpf(1), inner_digits)
        log_likelihood = constant - n * over_k.mean_log / 2 - quadratic / 2 * over_k.mean_inverse
        means = [1, gamma, gamma**2, over_k.mean, over_k.mean_square, gamma * over_k.mean]
        log_joint = constant + over_k.log_integral - gamma + log_gamma
        return log_joint, np.array([*means, log_likelihood])

    low, high, peak = _range_above(
        lambda u: integrands(u)[0], -(EVIDENCE_DIGITS + 5) * mpmath.log(10)
    )

    def integrate(n_panels: int) -> NDArray[Any]:
        edges = mpmath.linspace(low, high, n_panels + 1)

        def integral_of(component: int) -> Mpf:
            def f(log_gamma: Mpf) -> Mpf:
                log_joint, means = integrands(log_gamma)
                return mpmath.exp(log_joint - peak) * means[component]

            return mpmath.quad(f, edges, method="gauss-legendre", maxdegree=6)

        return np.array([integral_of(component) for component in range(7)])

    sums, again = integrate(10), integrate(13)
    for one, other in zip(sums, again, strict=True):
        require_close(f"langevin integral at tau = {tau}", one / other, mpmath.mpf(1), 23)
    log_evidence = peak + mpmath.log(again[0])
    gamma, gamma2, k, k2, gamma_k, expected = again[1:] / again[0]
    result = {
        "model": "langevin",
        "tau": tau,
        "prior_means": {"gamma": 1.0, "k": 1.0},
        "log_evidence": decimal(log_evidence, EVIDENCE_DIGITS),
        "posterior_mean": {"gamma": decimal(gamma, 20), "k": decimal(k, 20)},
        "posterior_sd": {
            "gamma": decimal(mpmath.sqrt(gamma2 - gamma**2), 18),
            "k": decimal(mpmath.sqrt(k2 - k**2), 18),
        },
        "posterior_covariance": decimal(gamma_k - gamma * k, 18),
        "expected_log_likelihood": decimal(expected, 20),
        "information_gain": decimal(expected - log_evidence, 18),
        "dx": dx.tolist(),
    }
    mp.dps = WORKING_DIGITS
    return result


def _range_above(log_f: Callable[[Mpf], Mpf], drop: Mpf) -> tuple[Mpf, Mpf, Mpf]:
    """Return the range where log_f is within drop of its maximum on a grid, and the maximum."""
    grid = [mpmath.mpf(j) / 4 for j in range(-80, 25)]
    values = [log_f(u) for u in grid]
    peak = max(values)
    kept = [j for j, value in enumerate(values) if value > peak + drop]
    if kept[0] == 0 or kept[-1] == len(grid) - 1:
        msg = "the integrand over ln gamma is not negligible at the ends of the grid; widen it"
        raise ArithmeticError(msg)
    return grid[kept[0] - 1], grid[kept[-1] + 1], peak


if __name__ == "__main__":
    main()

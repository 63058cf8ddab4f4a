"""Particles in a turbulent flow, as independent and with shared motion: evidence, length, widths.

    python benchmarks/shared_flow.py paper             100 packaged trajectories of each realisation
    python benchmarks/shared_flow.py laptop RUN ...    runs of `driftbayes turbulence run`

Each writes its part of `docs/figures/shared-flow.json`; an interrupted call resumes. The evidence
of independent particles is exact. That of a flow is by Laplace, with the diffusivity integrated out
in closed form. `shared_flow_page.py` makes tables and a figure from the results.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Parameter values already run in threads; threads of the linear algebra library would compete.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

from driftbayes._typing import FloatArray  # noqa: E402
from driftbayes.data._sampling import Displacements  # noqa: E402
from driftbayes.inference import Batch, Hypothesis, evidence  # noqa: E402
from driftbayes.inference._density import Density  # noqa: E402
from driftbayes.inference._hypothesis import points_at  # noqa: E402
from driftbayes.inference._quadrature import scale_form  # noqa: E402
from driftbayes.inference._scale import log_scale_evidence, most_likely_scale  # noqa: E402
from driftbayes.likelihood._flow import flow_correlation  # noqa: E402
from driftbayes.models import MODELS, model_named  # noqa: E402
from driftbayes.priors import Fixed, scaling_priors  # noqa: E402
from driftbayes.reproduce.turbulence.experiment import Scaling  # noqa: E402

RESULTS = Path("docs/figures/shared-flow.json")
SIDE = 2 * np.pi
# Initial parameters of a search, typical of these flows.
BEGIN = {"gamma": 2.0, "length": 0.3, "own_share": 0.4}


@dataclass(frozen=True)
class Fit:
    """Posterior of one model.

    Args:
        log_evidence: ln Z.
        log_mean: Posterior mean of the logarithm of each parameter.
        log_sd: Its standard deviation.
    """

    log_evidence: float
    log_mean: dict[str, float]
    log_sd: dict[str, float]


@dataclass(frozen=True)
class FlowOfRun:
    """One realisation.

    Args:
        name: Name.
        x: Positions, (particle, record, axis), not wrapped.
        interval: Time between records.
        scaling: Mean energy and enstrophy after the release.
        forcing_scale: 2π/k of the forcing.
        spectrum: Mean energy spectrum, of k = 1, 2, ...
    """

    name: str
    x: FloatArray
    interval: float
    scaling: Scaling
    forcing_scale: float
    spectrum: FloatArray

    @property
    def energy_scale(self) -> float:
        """2π Σ E(k)/k / Σ E(k)."""
        return float(2 * np.pi * np.sum(self.spectrum / self._k) / np.sum(self.spectrum))

    @property
    def velocity_correlation(self) -> float:
        """Mean square correlation of the velocities at two points of the square, per axis.

        By Parseval's theorem Σ E(k)²/(πk) / (Σ E(k))², for a ring of 2πk modes.
        """
        return float(np.sum(self.spectrum**2 / (np.pi * self._k)) / np.sum(self.spectrum) ** 2)

    @property
    def _k(self) -> FloatArray:
        return np.arange(1.0, len(self.spectrum) + 1)

    def to_json(self) -> dict[str, Any]:
        """Return the scales of the flow."""
        return {
            "name": self.name,
            "u_rms": self.scaling.u_rms,
            "eddy_turnover_time": self.scaling.eddy_turnover_time,
            "forcing_scale": self.forcing_scale,
            "energy_scale": self.energy_scale,
            "velocity_correlation": self.velocity_correlation,
        }

    def sampled(self, tau: float, n_particles: int = 600, n_steps: int = 100) -> FloatArray:
        """Return positions of particles at intervals of τ, (particle, time, axis)."""
        return self.x[:n_particles, :: self._stride(tau)][:, : n_steps + 1]

    def _stride(self, tau: float) -> int:
        stride = round(tau / self.interval)
        if not np.isclose(stride * self.interval, tau):
            msg = f"τ = {tau:g} is not a multiple of the recording interval {self.interval:g}"
            raise ValueError(msg)
        return stride

    def windows(
        self, tau: float, n_steps: int, n_particles: int, most: int
    ) -> Iterator[tuple[int, Displacements]]:
        """Return at most `most` disjoint windows of the first particles, spread over the record."""
        x = self.x[:n_particles, :: self._stride(tau)]
        n_windows = (x.shape[1] - 1) // n_steps
        for i in np.unique(np.linspace(0, n_windows - 1, min(most, n_windows)).round().astype(int)):
            part = x[:, i * n_steps : (i + 1) * n_steps + 1]
            yield int(i), displacements_of(part, tau)


def displacements_of(x: FloatArray, tau: float) -> Displacements:
    """Compute displacements of particles in the periodic square."""
    return Displacements.from_array(np.diff(x, axis=1), tau, start=x[:, 0], period=(SIDE, SIDE))


def hypothesis(name: str, scaling: Scaling, nu: float) -> Hypothesis:
    """Return a model with priors from the scales of the flow."""
    priors = scaling_priors(scaling.u_rms, scaling.eddy_turnover_time)
    model = model_named(name, MODELS)
    table = {**priors, "own_share": priors["own"], "nu": Fixed(nu)}
    return Hypothesis.from_table(model, table)


def independent(given: Hypothesis, data: Displacements) -> Fit:
    """Compute the exact evidence of particles that are treated as independent."""
    found = evidence(given, data)
    each = found.parameters
    return Fit(
        found.log_evidence,
        {name: each[name].log_mean for name in given.names},
        {name: each[name].log_sd for name in given.names},
    )


def together(given: Hypothesis, data: Displacements, begin: dict[str, float]) -> Fit:
    """Compute Laplace's evidence of particles that share a flow.

    The diffusivity is integrated out; the rest is Gaussian about its mode in unconstrained
    coordinates. `begin` is updated with the mode, for the next data set.
    """
    density = Density(given, Batch.of(data, model=given.model).engine(0, given.model))
    form, place, names = scale_form(density), density.scale, given.names
    assert form is not None
    assert place is not None
    left = [i for i in range(len(names)) if i != place]

    def at(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ln of the integrand, and ln of the most likely scale."""
        whole = np.zeros((len(z), len(names)))
        whole[:, left] = z
        theta, log_priors, log_jacobians = points_at(given, whole)
        theta = np.array(theta)
        theta[:, place] = 1.0
        _, n, log_det, quadratic = density.terms(theta)
        weight = (log_priors + log_jacobians)[:, left].sum(axis=1)
        scale = most_likely_scale(n, quadratic, form, natural=False)
        return log_scale_evidence(n, log_det, quadratic, form) + weight, np.log(scale)

    theta = np.array([begin.get(name, 1.0) for name in names])
    mode = _mode(at, given.to_unconstrained(theta)[left])
    size, cov = len(left), mode.cov
    log_evidence = mode.value + 0.5 * (size * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1])
    whole = np.zeros((1, len(names)))
    whole[0, left] = mode.z
    theta, _, log_jacobians = (part[0] for part in points_at(given, whole))
    # d ln θ / dz of each remaining parameter.
    rates = np.exp(log_jacobians[left]) / theta[left]
    sds = dict(zip((names[i] for i in left), rates * np.sqrt(np.diag(cov)), strict=True))
    sds[names[place]] = np.sqrt(2 / data.dx.size + mode.slope @ cov @ mode.slope)
    means = {names[i]: float(np.log(theta[i])) for i in left} | {names[place]: mode.log_scale}
    begin.update({names[i]: float(theta[i]) for i in left})
    return Fit(
        float(log_evidence),
        {name: float(means[name]) for name in names},
        {name: float(sds[name]) for name in names},
    )


def _mode(at: Any, z: FloatArray) -> "_Mode":
    """Find the mode by Newton's method, with differences over a tenth of the peak's width."""
    n = len(z)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    span, step, best = np.full(n, 0.1), np.zeros(n), -np.inf
    for _ in range(60):
        unit = np.diag(span)
        both = [sign * (unit[i] + unit[j]) for sign in (1, -1) for i, j in pairs]
        f, log_scale = at(z + np.array([np.zeros(n), *unit, *-unit, *both]))
        if not (f[0] >= best and np.isfinite(f).all()):
            step = 0.5 * step
            z = z - step
            continue
        best = f[0]
        up, down = f[1 : n + 1], f[n + 1 : 2 * n + 1]
        second = up + down - 2 * best
        hessian = np.diag(second / span**2)
        for k, (i, j) in enumerate(pairs):
            mixed = f[2 * n + 1 + k] + f[2 * n + 1 + len(pairs) + k] - 2 * best
            hessian[i, j] = hessian[j, i] = (mixed - second[i] - second[j]) / (
                2 * span[i] * span[j]
            )
        gradient = (up - down) / (2 * span)
        curvature, axes = np.linalg.eigh(-hessian)
        cov = (axes / np.maximum(np.abs(curvature), 1e-3)) @ axes.T
        step = cov @ gradient
        gain = 0.5 * gradient @ step
        fine = np.clip(0.1 * np.sqrt(np.diag(cov)), 1e-4, 0.3)
        if gain < 1e-3 and curvature[0] > 0 and np.all(span < 1.5 * fine):
            slope = (log_scale[1 : n + 1] - log_scale[n + 1 : 2 * n + 1]) / (2 * span)
            return _Mode(z, float(best + gain), cov, slope, float(log_scale[0]))
        step = step / max(1.0, np.linalg.norm(step))
        z, span = z + step, fine
    msg = f"no mode was found near {z}"
    raise RuntimeError(msg)


@dataclass(frozen=True)
class _Mode:
    """A mode: position, ln of the integrand, covariance; ln of the scale there, and its slope."""

    z: FloatArray
    value: float
    cov: FloatArray
    slope: FloatArray
    log_scale: float


def mean_square_correlation(length: float, own_share: float, nu: float) -> float:
    """Compute the mean square noise correlation of two particles anywhere in the square, per axis.

    The estimate of a diffusivity from N particles that are treated as independent then varies as
    that from N / (1 + (N - 1) times this) independent ones.
    """
    n = 1_000
    r = np.linspace(0.0, SIDE / 2, n)
    x = np.stack([r, np.zeros(n)], axis=1)
    corr = flow_correlation(x, np.abs(r[:, None] - r), length, nu, 0.0)
    along, across = corr[0, :n], corr[n, n:]
    squares = 0.5 * (along**2 + across**2)
    return (1 - own_share) ** 2 * float(np.trapezoid(2 * np.pi * r * squares, r)) / SIDE**2


def pair_correlations(x: FloatArray, n_bins: int = 20, reach: float = 1.0) -> dict[str, float]:
    """Estimate the correlation of two particles per step, summed over their initial distance.

    Particles are anywhere in the square. `kicks` is the mean square correlation per axis of their
    displacements, of Gaussian ones all that matters; `squares` is the mean correlation of their
    squared displacements, from which the variance of an estimated diffusivity follows whatever
    their distribution, in units of the variance of one Gaussian particle.

    Args:
        x: Positions at successive times, (particle, time, axis).
        n_bins: Number of bins of distance.
        reach: Largest distance.
    """
    dx = np.diff(x, axis=1)
    scale = np.mean(dx**2)
    upper = np.triu_indices(len(x), 1)
    sums = np.zeros((4, n_bins))
    for start, step in zip(x[:, :-1].swapaxes(0, 1), dx.swapaxes(0, 1), strict=True):
        apart = start[upper[0]] - start[upper[1]]
        apart -= SIDE * np.round(apart / SIDE)
        r = np.linalg.norm(apart, axis=1)
        near = r < reach
        first, second = (step[side[near]] for side in upper)
        unit = apart[near] / r[near, None]
        along = np.sum(first * unit, axis=1) * np.sum(second * unit, axis=1)
        excess = np.sum(step**2, axis=1) / (2 * scale) - 1
        squares = excess[upper[0][near]] * excess[upper[1][near]]
        both = np.sum(first * second, axis=1)
        place = (r[near] * (n_bins / reach)).astype(int)
        for i, value in enumerate((np.ones(len(along)), along, both - along, squares)):
            sums[i] += np.bincount(place, value, minlength=n_bins)
    count, along, across, squares = sums
    along, across, squares = along / count / scale, across / count / scale, squares / count
    edges = np.linspace(0, reach, n_bins + 1)
    area = np.pi * np.diff(edges**2) / SIDE**2
    # The square of a mean is biased by the variance of the mean.
    kicks = 0.5 * (along**2 + across**2) - 1 / count
    return {"kicks": float(np.sum(area * kicks)), "squares": float(np.sum(area * squares))}


@dataclass(frozen=True)
class Plan:
    """Data sets of one kind.

    Args:
        windows: Maximum number of windows of each realisation at each sampling time.
        n_particles: Particles of each data set.
        model: Model with a flow, besides the independent ones; none if empty.
        nus: Orders of the correlation.
        longest: Maximum duration of a window.
    """

    windows: dict[float, int]
    n_particles: int
    model: str
    nus: tuple[float, ...]
    longest: float

    def n_steps(self, tau: float) -> int:
        """Return the number of steps of a window."""
        return min(N_STEPS, int(self.longest / tau + 1e-9))


N_STEPS = 25
_ONCE = dict.fromkeys((0.08, 0.2, 0.5, 1.0, 2.0), 1)
PLANS = {
    "paper": (
        Plan(_ONCE, 100, "brownian+eddies", (0.5, 1.5, 2.5), 8.4),
        Plan(_ONCE, 100, "langevin+eddies", (0.5,), 8.4),
    ),
    "laptop": (
        Plan(dict.fromkeys((0.2, 0.4, 1.0, 2.0, 4.0), 30), 1000, "", (), 50.0),
        Plan({0.2: 1, 0.4: 1, 1.0: 6, 2.0: 3, 4.0: 3}, 400, "brownian+eddies", (0.5,), 50.0),
        Plan({0.2: 1, 0.4: 1, 1.0: 6, 2.0: 3}, 100, "langevin+eddies", (0.5,), 50.0),
        Plan({0.2: 1, 0.4: 1, 1.0: 6, 2.0: 3}, 100, "brownian+eddies", (0.5,), 50.0),
    ),
}


def packaged() -> list[FlowOfRun]:
    """Return the paper's realisations, with the trajectories that are packaged for a figure."""
    from driftbayes.reproduce.turbulence.results import load_results

    results = load_results()
    return [
        FlowOfRun(
            name,
            found["shown"].values.astype(np.float64),
            results.config(name)["record_every"],
            results.scaling(name),
            2 * np.pi / results.config(name)["k_f"],
            found["energy_spectrum"].values[1:],
        )
        for name, found in results.realisations.items()
    ]


def of_directory(directory: Path) -> FlowOfRun:
    """Read a run of `driftbayes turbulence run`."""
    import xarray as xr

    from driftbayes.io import read_trajectories
    from driftbayes.turbulence.output import DIAGNOSTICS, SPECTRA, read_config

    config, _ = read_config(directory)
    tracks = read_trajectories(directory)
    with (
        xr.open_dataset(directory / DIAGNOSTICS) as rows,
        xr.open_dataset(directory / SPECTRA) as rings,
    ):
        after = rows.isel(time=rows["time"].values >= config.spin_up)
        late = rings.isel(time=rings["time"].values >= config.spin_up)
        scaling = Scaling(*(float(after[f"{e}_mean"].mean()) for e in ("energy", "enstrophy")))
        spectrum = late["energy"].values.mean(axis=0)[1:]
    return FlowOfRun(
        f"seed {config.seed}",
        tracks.positions.reshape(tracks.n_trajectories, -1, 2),
        config.record_every,
        scaling,
        2 * np.pi / config.k_f,
        spectrum,
    )


def compute(part: str, flows: Sequence[FlowOfRun]) -> None:
    """Add missing results to the stored ones, starting with the first window of every flow."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    mine = stored.setdefault(part, {"flows": [], "rows": []})
    mine["flows"] = [_rounded(flow.to_json()) for flow in flows]
    known = {_key(row) for row in mine["rows"]}
    begins: dict[Any, dict[str, float]] = {}
    for plan in PLANS[part]:
        jobs = [
            (number, tau, flow, window, data)
            for tau, most in plan.windows.items()
            for flow in flows
            for number, (window, data) in enumerate(
                flow.windows(tau, plan.n_steps(tau), plan.n_particles, most)
            )
        ]
        models = [("brownian", 0.0), ("langevin", 0.0), *((plan.model, nu) for nu in plan.nus)]
        for _, tau, flow, window, data in sorted(jobs, key=lambda job: job[:2]):
            for model, nu in models:
                row: dict[str, Any] = {"flow": flow.name, "tau": tau, "window": window}
                row |= {"n_particles": plan.n_particles, "model": model, "nu": nu}
                if _key(row) in known:
                    continue
                begin = time.perf_counter()
                given = hypothesis(model, flow.scaling, nu)
                if nu:
                    place = begins.setdefault((tau, model, nu), dict(BEGIN))
                    fit = together(given, data, place)
                else:
                    fit = independent(given, data)
                print(f"{_key(row)}: {time.perf_counter() - begin:.1f} s", flush=True)
                row |= {"n_steps": int(data.row_sizes[0]), **_rounded(asdict(fit))}
                mine["rows"].append(row)
                known.add(_key(row))
            RESULTS.write_text(_text(stored))
    if part == "paper":
        mine["spread"] = measured_spread()
        mine["windows"] = [_rounded(window_correlations(tau)) for tau in PLANS[part][0].windows]
    else:
        mine["pairs"] = [
            {"flow": flow.name, "tau": tau, **_rounded(pair_correlations(flow.sampled(tau)))}
            for tau in PLANS[part][0].windows
            for flow in flows
        ]
    RESULTS.write_text(_text(stored))


def measured_spread() -> list[dict[str, Any]]:
    """Compute the spread of estimates from 1000 of the paper's particles: expected and actual."""
    from driftbayes.reproduce.turbulence.analysis import QUANTITIES, spreads
    from driftbayes.reproduce.turbulence.results import load_results

    found = spreads(list(load_results().realisations.values()))
    return [
        _rounded(
            {
                "quantity": quantity,
                "tau": float(tau),
                "n_data_sets": int(found.n_data_sets[i]),
                "expected": float(found.expected[q, i]),
                "over_particles": float(found.over_particles[q, i]),
                "over_flows": float(found.over_flows[q, i]),
            }
        )
        for q, quantity in enumerate(QUANTITIES[:3])
        for i, tau in enumerate(found.taus)
    ]


def window_correlations(tau: float) -> dict[str, float]:
    """Compute the correlation of ln κ of a window with that of the next, and with ln E.

    There is none with the next window where only some of the windows are packaged.
    """
    from driftbayes.reproduce.turbulence.results import load_results

    results, following, energetic = load_results(), [], []
    for name, found in results.realisations.items():
        nearest = int(np.argmin(np.abs(found["tau"].values - tau)))
        here = found["window_tau_index"].values == nearest
        number, value = (found[f"window_{v}"].values[here] for v in ("number", "log_kappa"))
        value = value - value.mean()
        is_next = np.diff(number) == 1
        following.append(np.stack([value[:-1], value[1:]])[:, is_next])
        duration = N_STEPS * float(found["tau"].values[nearest])
        begin = results.config(name)["spin_up"] + duration * number[:, None]
        time_, energy = found["flow_time"].values, found["energy_mean"].values
        inside = (time_ >= begin - 0.5) & (time_ <= begin + duration + 0.5)
        mean = np.log(np.where(inside, energy, 0).sum(axis=1) / inside.sum(axis=1))
        energetic.append(np.stack([value, mean - mean.mean()]))
    pairs = {"following": np.hstack(following), "energy": np.hstack(energetic)}
    out: dict[str, float] = {"tau": tau}
    for name, (one, other) in pairs.items():
        if not len(one):
            continue
        out[name] = float(np.sum(one * other) / np.sqrt(np.sum(one**2) * np.sum(other**2)))
        out[f"{name}_error"] = float(1 / np.sqrt(len(one)))
    return out


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[n] for n in ("flow", "tau", "window", "n_particles", "model", "nu"))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _text(stored: dict[str, Any]) -> str:
    """Format JSON with one line for each row."""
    parts = []
    for name, part in stored.items():
        lists = ",\n".join(
            f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
            for key, rows in part.items()
        )
        parts.append(f'"{name}": {{\n{lists}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    part = sys.argv[1]
    flows = packaged() if part == "paper" else [of_directory(Path(d)) for d in sys.argv[2:]]
    compute(part, flows)


if __name__ == "__main__":
    main()

"""Maps by evidence: false divisions, errors of known maps, a shear flow, floats, and speed.

python benchmarks/map.py homogeneous 200
python benchmarks/map.py error
python benchmarks/map.py shear
python benchmarks/map.py floats FILE 8d
python benchmarks/map.py speed [MAX_POINTS]
"""

import resource
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np

import driftbayes as db
from driftbayes._typing import FloatArray
from driftbayes.comparison import make_hypotheses
from driftbayes.inference import Hypothesis
from driftbayes.space import TreeMap, map_tree

# Side of the region, mean diffusivity and steps of a track; the sampling time is one.
SIDE, KAPPA, N_STEPS = 1.0, 2e-4, 10


def hypotheses(*names: str, u_rms: float = 0.02, timescale: float = 1.0) -> Any:
    return make_hypotheses(names, u_rms=u_rms, timescale=timescale).hypotheses


def kappa_at(x: FloatArray, amplitude: float) -> FloatArray:
    """Evaluate a diffusivity that varies by a fraction of its mean."""
    wave = np.sin(2 * np.pi * x[..., 0] / SIDE) * np.sin(2 * np.pi * x[..., 1] / SIDE)
    return np.asarray(KAPPA * (1 + amplitude * wave))


def tracks(n_steps: int, amplitude: float, seed: int) -> db.Trajectories:
    """Simulate Brownian tracks that start anywhere in the region, with well-mixed drift."""
    rng = np.random.default_rng(seed)
    n = max(n_steps // N_STEPS, 1)
    x = np.empty((n, N_STEPS + 1, 2))
    x[:, 0] = rng.uniform(0, SIDE, (n, 2))
    k = 2 * np.pi / SIDE
    # Several short steps per sampling time, because the coefficients change along the path.
    n_within = 4
    for i in range(N_STEPS):
        here = x[:, i]
        for _ in range(n_within):
            sx, sy = np.sin(k * here).T
            cx, cy = np.cos(k * here).T
            drift = KAPPA * amplitude * k * np.stack([cx * sy, sx * cy], axis=1)
            size = np.sqrt(2 * kappa_at(here, amplitude) / n_within)
            here = here + drift / n_within + size[:, None] * rng.standard_normal(here.shape)
        x[:, i + 1] = here
    return db.Trajectories.from_arrays(x, dt=1.0)


def homogeneous(n_sets: int) -> None:
    """Map data sets of 900 steps with constant parameters."""
    models = hypotheses("brownian")
    log_k, divided = [], []
    for seed in range(n_sets):
        found = map_tree(tracks(900, 0.0, seed), models, 1.0, depth=5, scatter=False)
        log_k.append(found.log_bayes_factor_inhomogeneous)
        divided.append(1 - found.probability_homogeneous)
    print(f"{n_sets} sets of 900 steps: probability that the region is divided at most", end=" ")
    print(
        f"{max(divided):.2g}, mean {np.mean(divided):.2g}; ln K at most {max(log_k):.1f},", end=" "
    )
    print(f"median {np.median(log_k):.1f}")


def map_error(found: TreeMap, model: str, name: str, amplitude: float) -> tuple[float, ...]:
    """Compute the relative error of a map within the region, and the coverage of its errors.

    The truth is the diffusivity at a position, or its mean over the cell.
    """
    depth = found.levels.depth
    mean, sd, within = found.averaged(model)[name]
    x, y = (0.5 * (e[1:] + e[:-1]) for e in found.box.edges(depth))
    truth = kappa_at(np.stack(np.meshgrid(x, y), axis=-1), amplitude)
    places, size = found.cell_of(depth)
    average = np.zeros((size, size))
    for d, place in enumerate(places):
        n = 2 ** (depth - d)
        blocks = truth.reshape(2**d, n, 2**d, n).mean(axis=(1, 3))
        chance = np.where(place >= 0, found[model].prunings.leaf[d][place], 0.0)
        average += chance.reshape(size, size) * np.kron(blocks, np.ones((n, n)))
    inside = [(e > 0) & (e < SIDE) for e in (x, y)]
    there = np.isfinite(mean) & inside[0][None, :] & inside[1][:, None]
    there &= found.averaged(model)["no_data"][0] < 1e-3
    relative = (mean / truth - 1)[there]
    shares = []
    for aim, off in ((truth, np.hypot(sd, within)), (average, sd)):
        z = np.abs((mean - aim) / off)[there]
        shares += [float(np.mean(z < 1)), float(np.mean(z < 2))]
    return float(np.sqrt(np.mean(relative**2))), *shares


def error() -> None:
    """Print evidence and error against the number of data, where κ varies by 70 %."""
    models = hypotheses("brownian")
    print("within 1 and 2 errors: truth at a place (error with variation within cells), and its")
    print("mean over the cell (error alone)")
    print("  steps      ln K best grid worst grid  error  place     cell      cells  seconds")
    for n_steps in (900, 10_000, 90_000, 500_000):
        rows = []
        for seed in range(5 if n_steps < 50_000 else 2):
            data = tracks(n_steps, 0.7, seed)
            begin = time.perf_counter()
            found = map_tree(data, models, 1.0, depth=5, scatter=False)
            seconds = time.perf_counter() - begin
            tree = found["brownian"]
            fixed = fixed_grids(found)
            rows.append(
                (
                    *(tree.log_bayes_factor_inhomogeneous, max(fixed), min(fixed)),
                    *map_error(found, "brownian", "kappa", 0.7),
                    *(tree.expected_cells, seconds),
                )
            )
        k, best, worst, off, *shares, cells, seconds = np.mean(rows, axis=0)
        text = " ".join(f"{share:4.0%}" for share in shares)
        print(
            f"{n_steps:7,} {k:9.1f} {best:9.1f} {worst:10.1f} {off:6.1%} {text} "
            f"{cells:6.0f} {seconds:8.2f}"
        )


def fixed_grids(found: TreeMap) -> list[float]:
    """Compute ln K of grids of equal cells at each depth, over constant parameters."""
    tree = found["brownian"]
    ends = np.cumsum([len(level) for level in found.levels.codes])[:-1]
    by_depth = np.split(tree.leaves.log_evidence, ends)
    values = []
    # Cells that are not divided further represent their parts.
    undivided = 0.0
    for depth in range(1, len(by_depth)):
        has_children = np.isin(np.arange(len(by_depth[depth - 1])), found.levels.parents[depth])
        if depth > 1:
            undivided += float(by_depth[depth - 1][~has_children].sum())
        values.append(float(by_depth[depth].sum()) + undivided - float(by_depth[0][0]))
    return values


def shear() -> None:
    """Map the flow U sin ky: resolved at a short sampling time, Taylor dispersion at a long one."""
    rng = np.random.default_rng(1)
    u, k, kappa, dt = 1.0, 2 * np.pi, 0.05, 0.01
    n, n_steps = 300, 30_000
    x = np.empty((n, n_steps // 10 + 1, 2))
    here = rng.uniform(0, 1, (n, 2)) * [4.0, 1.0]
    x[:, 0] = here
    for i in range(n_steps):
        here = here + np.sqrt(2 * kappa * dt) * rng.standard_normal((n, 2))
        here[:, 0] += u * np.sin(k * here[:, 1]) * dt
        if i % 10 == 9:
            x[:, i // 10 + 1] = here
    taylor = kappa + u**2 / (2 * kappa * k**2)
    data = db.Trajectories.from_arrays(x, dt=10 * dt)
    models = hypotheses("brownian+mean+anisotropic", u_rms=0.7, timescale=1.0)
    long = map_tree(data, models, 20.0, depth=1, scatter=False)
    tree = long[models[0].name]
    names = [quantity.name for quantity in tree.leaves.quantities]
    for name, truth in (("K_11", taylor), ("K_12", 0.0), ("K_22", kappa)):
        i = names.index(name)
        mean, sd = tree.leaves.mean[i, 0], tree.leaves.sd[i, 0]
        print(f"tau = 20: {name} = {mean:.4f} ± {sd:.4f}, theory {truth:.4f}")
    print(f"tau = 20: P(constant) = {long.probability_homogeneous:.3f}")


def floats(file: str, tau: str) -> None:
    """Map real floats, and Langevin motion simulated at the same times."""
    data = db.read(file)
    assert isinstance(data, db.Trajectories)
    at = db.displacements(data, tau).tau
    models = make_hypotheses(("brownian", "langevin"), data, tau=at).hypotheses
    for title, some in (("floats", data), ("control", control(data, models[1], at))):
        found = map_tree(some, models, at)
        base = found["brownian"].log_evidence_homogeneous
        memory = found["langevin"].log_evidence_homogeneous - base
        cells = found["brownian"].log_evidence - base
        both = found["langevin"].log_evidence - base
        print(
            f"{title} at {tau}: memory {memory:+.0f}, cells {cells:+.0f}, both {both:+.0f}", end=""
        )
        print(f"; cells given memory {both - memory:+.1f}")


def control(data: db.Trajectories, hypothesis: Hypothesis, tau: float) -> db.Trajectories:
    """Simulate homogeneous Langevin motion with the parameters and times of the data."""
    fit = db.compare(data, tau, models=[hypothesis], sensitivity=False)["langevin"].parameters
    model = db.Langevin(gamma=fit["gamma"].mean, k=fit["k"].mean)
    pieces, times, first = [], [], 0
    dt = data.recording_interval
    assert dt is not None
    for number, size in enumerate(data.row_sizes):
        own = slice(first, first + int(size))
        first += int(size)
        t = data.times[own]
        n = round((t[-1] - t[0]) / dt)
        key = jax.random.key(number)
        path = np.asarray(model.simulate(key, n_particles=1, n_steps=n, n_dim=2, tau=dt))[0]
        steps = np.rint((t - t[0]) / dt).astype(int)
        pieces.append(path[steps] - path[0] + start_of(data, own.start))
        times.append(t)
    return db.Trajectories.from_arrays(pieces, times=times, length_unit="m", time_unit="s")


def start_of(data: db.Trajectories, row: int) -> FloatArray:
    """Return the start of a trajectory on one plane."""
    if data.lonlat is None:
        return np.asarray(data.positions[row])
    lon, lat = np.radians(data.lonlat[row])
    return 6.371e6 * np.array([lon * np.cos(np.radians(np.mean(data.lonlat[:, 1]))), lat])


def speed(max_points: int = 1_000_000) -> None:
    """Measure time and memory in separate processes: one long track, and many short ones."""
    print("points     tracks  model          times      cells  seconds  of processors  memory")
    for n_points in (1_000, 100_000, 1_000_000):
        for n_each in (n_points, 100):
            for model in ("brownian+mean", "langevin+mean"):
                for times in ("regular", "irregular"):
                    if n_points <= max_points:
                        case = ("case", str(n_points), str(n_each), model, times)
                        subprocess.run([sys.executable, __file__, *case], check=True)


def one_speed(n_points: int, n_each: int, model: str, times: str) -> None:
    """Print time and memory of one map, without compilation."""
    rng = np.random.default_rng(0)
    n = n_points // n_each
    x = np.cumsum(rng.normal(0, 0.01, (n, n_each, 2)), axis=1) + rng.uniform(0, 1, (n, 1, 2))
    h = np.ones((n, n_each)) if times == "regular" else rng.uniform(0.5, 1.5, (n, n_each))
    data = db.Trajectories.from_arrays(list(x), times=list(np.cumsum(h, axis=1)))
    tau = 1.0 if times == "regular" else None
    models = hypotheses(model)
    map_tree(tracks(900, 0.0, 0), models, tau)
    begin = time.perf_counter(), time.process_time()
    found = map_tree(data, models, tau)
    wall, own = time.perf_counter() - begin[0], time.process_time() - begin[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{n_points:9,} {n:7,}  {model:13s}  {times:9s} {found.levels.n_nodes:6,} {wall:8.1f} "
        f"{own:14.1f} {memory:5.2f} GiB",
        flush=True,
    )


def figure(path: str) -> None:
    """Draw a known diffusivity and its maps from increasing numbers of data."""
    from matplotlib.figure import Figure

    models = hypotheses("brownian")
    drawing = Figure(figsize=(11.0, 5.2), layout="constrained")
    axes = drawing.subplots(2, 4)
    x = np.linspace(0, SIDE, 257)
    middle = 0.5 * (x[1:] + x[:-1])
    truth = kappa_at(np.stack(np.meshgrid(middle, middle), axis=-1), 0.7)
    how = {"vmin": 0.0, "vmax": 1.8 * KAPPA, "cmap": "viridis"}
    axes[0, 0].pcolormesh(x, x, truth, **how)
    axes[0, 0].set_title("diffusivity")
    axes[1, 0].axis("off")
    for column, n_steps in enumerate((900, 10_000, 90_000), 1):
        found = map_tree(tracks(n_steps, 0.7, 0), models, 1.0, depth=5, scatter=False)
        edges = found.box.edges(found.levels.depth)
        mean, sd, within = found.averaged("brownian")["kappa"]
        top = axes[0, column].pcolormesh(*edges, mean, **how)
        below = axes[1, column].pcolormesh(*edges, np.hypot(sd, within) / mean, vmin=0, vmax=0.6)
        log_k = found.log_bayes_factor_inhomogeneous
        axes[0, column].set_title(f"{n_steps:,} steps, ln K = {log_k:.0f}")
        axes[1, column].set_title("relative error")
    drawing.colorbar(top, ax=axes[0].tolist())
    drawing.colorbar(below, ax=axes[1].tolist())
    for ax in axes.ravel():
        ax.set_aspect("equal")
        ax.set_xlim(0, SIDE)
        ax.set_ylim(0, SIDE)
    drawing.savefig(path, dpi=110)


if __name__ == "__main__":
    name, *rest = sys.argv[1:] or ["homogeneous", "20"]
    commands: dict[str, Any] = {
        **{"homogeneous": homogeneous, "error": error, "shear": shear},
        **{"floats": floats, "speed": speed, "case": one_speed, "figure": figure},
    }
    commands[name](*(int(word) if word.isdigit() else word for word in rest))

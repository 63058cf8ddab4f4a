"""Overdamped or underdamped: our verdict and that of StochasticForceInference, many seeds.

Needs `pip install StochasticForceInference==2.0.4`, preferably in a separate environment:

    python benchmarks/sfi.py data DIR         writes the trajectories and our verdicts
    python benchmarks/sfi.py classify DIR     adds theirs, in the environment that has the package
    python benchmarks/sfi.py table DIR        prints both
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

# Tracks of 6400 frames, so that its default scan has all six strides. With 201 frames it has only
# one: three covariances for a fit of four parameters, so that rounding decides the verdict.
N_SEEDS, N_PARTICLES, N_STEPS, N_DIM = 20, 2, 6400, 2
# γτ of the Langevin data (γ = k = 1), and the error of each coordinate.
TAUS = (0.1, 0.5, 2.0)
NOISES = (0.0, 0.1)
MODELS = ("langevin", "brownian")


def cases() -> list[tuple[str, float, float]]:
    """Return model, sampling time and noise of each row of the table."""
    return [(model, tau, noise) for model in MODELS for tau in TAUS for noise in NOISES]


def file_name(model: str, tau: float, noise: float) -> str:
    """Return the file name of the positions of a case."""
    return f"{model}-{tau:g}-{noise:g}.npy"


def positions(model: str, tau: float, noise: float) -> np.ndarray:
    """Simulate positions with noise, (seed, particle, time, axis)."""
    import jax

    from driftbayes.models import Brownian, Langevin

    law = Langevin(gamma=1.0, k=1.0) if model == "langevin" else Brownian(kappa=1.0)
    found = []
    for seed in range(N_SEEDS):
        key, key_noise = jax.random.split(jax.random.key(seed))
        size = {"n_particles": N_PARTICLES, "n_steps": N_STEPS, "n_dim": N_DIM}
        x = law.simulate(key, tau=tau, **size)
        found.append(np.asarray(x + noise * jax.random.normal(key_noise, x.shape)))
    return np.stack(found)


def ours(x: np.ndarray, tau: float) -> dict[str, list[float]]:
    """Compute evidences of Brownian and Langevin motion, without and with unknown noise."""
    from driftbayes.comparison import make_hypotheses
    from driftbayes.data._sampling import Displacements
    from driftbayes.inference import Auto, Batch, Laplace, Method, evidence_batch

    names = ("brownian", "langevin", "brownian+noise", "langevin+noise")
    hypotheses = make_hypotheses(names, u_rms=1.0, timescale=1.0).hypotheses
    # Runs of 20 steps, taken as independent, because the cost grows as their length squared.
    shape = (N_PARTICLES * N_STEPS // 20, 20, N_DIM)
    data = [Displacements.from_array(np.diff(one, axis=1).reshape(shape), tau) for one in x]
    found = {}
    for hypothesis in hypotheses:
        batch = Batch.stack([Batch.of(one, model=hypothesis.model) for one in data])
        # With noise by Laplace's method, for speed; it errs by about a nat if sigma may vanish.
        noisy = hypothesis.name.endswith("noise")
        method: Method = Laplace() if noisy else Auto()
        records = evidence_batch([hypothesis], batch, method=method, coords="log")
        found[hypothesis.name] = [record.log_evidence for record in records]
    return found


def theirs(x: np.ndarray, tau: float) -> list[str]:
    """Return the verdict of `classify_dynamics` for each seed."""
    try:
        from SFI import TrajectoryCollection  # type: ignore[import-not-found]
        from SFI.diagnostics.dynamics_order import (  # type: ignore[import-not-found]
            classify_dynamics,
        )
    except ImportError as error:
        msg = "StochasticForceInference is not installed: pip install StochasticForceInference"
        raise SystemExit(msg) from error
    return [
        classify_dynamics(
            TrajectoryCollection.from_arrays(X=one.transpose(1, 0, 2), dt=tau), cross_check=False
        ).verdict
        for one in x
    ]


def verdict(row: dict[str, list[float]], seed: int) -> str:
    """Return UD, OD, or inconclusive if ln K is below 3 (Kass and Raftery's "strong")."""
    logs = {name: values[seed] for name, values in row.items()}
    under = np.logaddexp(logs["langevin"], logs["langevin+noise"])
    over = np.logaddexp(logs["brownian"], logs["brownian+noise"])
    if abs(under - over) < 3:
        return "inconclusive"
    return "UD" if under > over else "OD"


def table(folder: Path) -> str:
    """Tabulate counts of verdicts as Markdown."""
    found = json.loads((folder / "ours.json").read_text())
    other = json.loads((folder / "sfi.json").read_text())
    lines = [
        "| data | γτ | noise | driftbayes: UD / OD / inconclusive | SFI: UD / OD / inconclusive |",
        "|---|---|---|---|---|",
    ]
    for model, tau, noise in cases():
        name = file_name(model, tau, noise)
        mine = [verdict(found[name], seed) for seed in range(N_SEEDS)]
        counts = [
            " / ".join(str(words.count(word)) for word in ("UD", "OD", "inconclusive"))
            for words in (mine, other[name])
        ]
        x = f"{tau:g}" if model == "langevin" else "—"
        lines.append(f"| {model}, τ = {tau:g} | {x} | {noise:g} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines)


def main(step: str, folder: Path) -> None:
    """Run one of the three steps."""
    if step == "table":
        print(table(folder))
        return
    results: dict[str, Any] = {}
    for model, tau, noise in cases():
        name = file_name(model, tau, noise)
        if step == "data":
            folder.mkdir(parents=True, exist_ok=True)
            x = positions(model, tau, noise)
            np.save(folder / name, x)
            results[name] = ours(x, tau)
        else:
            results[name] = theirs(np.load(folder / name), tau)
        print(name, flush=True)
    target = folder / ("ours.json" if step == "data" else "sfi.json")
    target.write_text(json.dumps(results))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("data", "classify", "table"):
        raise SystemExit(__doc__)
    if sys.argv[1] == "data":
        import jax

        jax.config.update("jax_enable_x64", True)
    main(sys.argv[1], Path(sys.argv[2]))

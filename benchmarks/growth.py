"""Growth of the cost of a step with the grid and the number of particles, on this machine.

`python benchmarks/growth.py` measures and writes `docs/figures/growth-BACKEND.json`;
`python benchmarks/growth.py --figure` draws `docs/figures/growth.png` from these files.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

from driftbayes.turbulence.config import RunConfig  # noqa: E402
from driftbayes.turbulence.march import begin, march  # noqa: E402
from driftbayes.turbulence.noise import random_start  # noqa: E402
from driftbayes.turbulence.particles import INTERPOLATIONS, seed_particles  # noqa: E402

FIGURES = Path("docs/figures")
GRIDS = {"cpu": (64, 128, 256, 512, 1024), "gpu": (128, 256, 512, 1024, 2048, 4096)}
# Grid for the measurements with particles.
HOME = {"cpu": 256, "gpu": 1024}
PARTICLES = {"cpu": (10**3, 10**4, 10**5, 10**6), "gpu": (10**3, 10**4, 10**5, 10**6, 10**7)}


def measure() -> dict[str, Any]:
    """Measure microseconds per step of the flow alone, and with particles."""
    backend = jax.default_backend()
    result: dict[str, Any] = {
        "backend": backend,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "flow": {},
        "particles": {},
    }
    for precision in ("double", "single"):
        rows = {n: _seconds(n, 0, "bilinear", precision) for n in GRIDS[backend]}
        result["flow"][precision] = {str(n): 1e6 * value for n, value in rows.items()}
    precision = "double"
    for name in INTERPOLATIONS:
        rows = {}
        for n_particles in PARTICLES[backend]:
            if name != "bilinear" and n_particles > 10**6:
                continue
            rows[n_particles] = _seconds(HOME[backend], n_particles, name, precision)
        result["particles"][name] = {str(n): 1e6 * value for n, value in rows.items()}
    return result


def _seconds(n: int, n_particles: int, name: str, precision: Any) -> float:
    config = RunConfig.preset("paper", grid=n, k_f=n / 16, precision=precision)
    flow, interpolation = config.flow(), INTERPOLATIONS[name]
    state, x = begin(
        flow,
        flow.start(jnp.asarray(random_start(flow.grid))),
        _positions(n_particles),
        interpolation,
    )
    on_gpu = jax.default_backend() == "gpu"
    n_pairs = 64 if on_gpu or n < 512 else 8
    n_pairs = 4 if not on_gpu and n_particles >= 10**5 else n_pairs
    return _best(lambda: march(flow, state, x, interpolation, 1, n_pairs)) / (2 * n_pairs)


def _positions(n_particles: int) -> jax.Array:
    return seed_particles(n_particles, 0) if n_particles else jnp.zeros((0, 2))


def _best(work: Callable[[], Any], repeats: int = 4) -> float:
    jax.block_until_ready(work())
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - start)
    return min(found)


def draw() -> Path:
    """Draw both panels for every backend measured so far."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from driftbayes.plots.style import INK, MORE_COLOURS, RC

    names = {"cpu": "two CPU cores", "gpu": "H200"}
    lines = {"cpu": "--", "gpu": "-"}
    with mpl.rc_context(RC):
        figure = Figure(figsize=(7.0, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        for path in sorted(FIGURES.glob("growth-*.json")):
            found = json.loads(path.read_text())
            backend = found["backend"]
            for precision, colour in (("double", INK), ("single", "#0072B2")):
                rows = found["flow"][precision]
                left.loglog(
                    [int(n) for n in rows],
                    [1e-3 * value for value in rows.values()],
                    lines[backend] + "o",
                    color=colour,
                    label=f"{names[backend]}, {precision}",
                )
            for name, colour in zip(found["particles"], MORE_COLOURS, strict=False):
                rows = found["particles"][name]
                right.loglog(
                    [int(n) for n in rows],
                    [1e-3 * value for value in rows.values()],
                    lines[backend] + "o",
                    color=colour,
                    label=f"{names[backend]}, {HOME[backend]}², {name}",
                )
        left.set(xlabel="grid points along a side", ylabel="ms per step, flow alone")
        right.set(xlabel="particles", ylabel="ms per step, flow and particles")
        for ax in (left, right):
            ax.legend(fontsize=6.5)
        figure.savefig(FIGURES / "growth.png", dpi=200)
    return FIGURES / "growth.png"


def main() -> None:
    """Measure or draw."""
    if "--figure" in sys.argv:
        print(draw())
        return
    result = measure()
    text = json.dumps(result, indent=1)
    (FIGURES / f"growth-{result['backend']}.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()

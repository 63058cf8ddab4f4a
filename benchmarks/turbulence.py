"""Speed of one step of the two-dimensional flow, relative to other codes.

All run in double precision, many steps in one compiled loop. The codes take turns,
so that other work on the machine slows them all, and the best of several turns counts.
"""

import importlib
import importlib.metadata
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from driftbayes.turbulence.flow import Dissipation, Flow, FlowState
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.march import begin, march
from driftbayes.turbulence.noise import paper_start
from driftbayes.turbulence.particles import INTERPOLATIONS

DT = 2.5e-4
SIZES = (256, 512, 1024)
_EDDIES = 64.0
# A function to time, and its number of steps.
_Run = tuple[Callable[[], Any], int]


def flow_steps() -> dict[str, Any]:
    """Measure milliseconds per step at three sizes, and the ratio of other codes to ours."""
    result: dict[str, Any] = {"numpy_agrees_to": _numpy_against_ours(), "versions": _versions()}
    for n in SIZES:
        grid = Grid(n)
        # Enough steps for the fixed cost of a call to be negligible.
        n_steps = 64 * 1024 // n
        runs: dict[str, _Run] = {"driftbayes": _ours(grid, n_steps)}
        for name, make in _OTHERS.items():
            try:
                runs[name] = make(grid, n_steps // 2)
            except ImportError as problem:
                print(f"{name} left out: {problem}")
        best = _best_in_turns(runs)
        ours = best["driftbayes"]
        result[f"{n}^2"] = {
            name: {"ms_per_step": 1e3 * seconds, "times_ours": seconds / ours}
            for name, seconds in best.items()
        }
    return result


def _best_in_turns(runs: dict[str, _Run], turns: int = 4) -> dict[str, float]:
    """Return seconds per step of each code, the best of several turns; the first compiles."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns + 1):
        for name, (run, n_steps) in runs.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            if turn:
                times[name].append((time.perf_counter() - start) / n_steps)
    return {name: min(seconds) for name, seconds in times.items()}


def _versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "jaxlib", "numpy", "pyqg-jax", "exponax", "jax-cfd"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _flow(grid: Grid, *, truncate: bool = False) -> tuple[Flow, FlowState]:
    """Return the paper's flow: ring forcing, hypofriction, filter."""
    k_f = min(_EDDIES, grid.n / 4)
    flow = Flow.make(
        grid,
        DT,
        dissipation=Dissipation(hypofriction=1.0, truncate=truncate),
        forcing=Forcing.on_ring(grid, epsilon=0.00636, k_f=k_f, width=2.0),
    )
    return flow, flow.start(jnp.asarray(paper_start(grid)), seed=0)


def _ours(grid: Grid, n_steps: int) -> _Run:
    flow, state = _flow(grid)
    none = INTERPOLATIONS["bilinear"]
    state, x = begin(flow, state, jnp.zeros((0, 2)), none)
    return lambda: march(flow, state, x, none, 1, n_steps // 2), n_steps


def _looped(step: Callable[[Any], Any], n_steps: int) -> Callable[[Any], Any]:
    return jax.jit(lambda state: jax.lax.fori_loop(0, n_steps, lambda _, s: step(s), state))


def _pyqg_jax(grid: Grid, n_steps: int) -> _Run:
    """Time its barotropic model: one layer, AB3, the same filter; no friction, no forcing."""
    pyqg = importlib.import_module("pyqg_jax")
    model = pyqg.steppers.SteppedModel(
        model=pyqg.bt_model.BTModel(
            nx=grid.n, L=2 * np.pi, rek=0.0, precision=pyqg.state.Precision.DOUBLE
        ),
        stepper=pyqg.steppers.AB3Stepper(dt=DT),
    )
    state = model.create_initial_state(jax.random.key(0))
    vorticity = jnp.asarray(paper_start(grid))[None]
    state = state.update(state=state.state.update(qh=vorticity))
    run = _looped(model.step_model, n_steps)
    return lambda: run(state), n_steps


def _exponax(grid: Grid, n_steps: int) -> _Run:
    """Time second-order ETDRK with drag in spectral space, its fastest option."""
    exponax = importlib.import_module("exponax")
    stepper = exponax.stepper.NavierStokesVorticity(
        2, 2 * np.pi, grid.n, DT, diffusivity=1e-5, drag=-0.1, order=2
    )
    run = eqx.filter_jit(exponax.repeat(stepper.step_fourier, n_steps))
    zeta = jnp.asarray(paper_start(grid))[None]
    return lambda: run(zeta), n_steps


def _jax_cfd(grid: Grid, n_steps: int) -> _Run:
    """Time Crank--Nicolson with fourth-order low-storage Runge--Kutta, with drag."""
    grids = importlib.import_module("jax_cfd.base.grids")
    spectral = importlib.import_module("jax_cfd.spectral")
    square = grids.Grid((grid.n, grid.n), domain=((0, 2 * np.pi), (0, 2 * np.pi)))
    equation = spectral.equations.NavierStokes2D(1e-5, square, drag=0.1, smooth=True)
    step = spectral.time_stepping.crank_nicolson_rk4(equation, DT)
    run = _looped(step, n_steps)
    zeta = jnp.asarray(paper_start(grid))
    return lambda: run(zeta), n_steps


class _Plain:
    """Straightforward AB3 in NumPy, without forcing.

    Args:
        flow: The same equation.
        transforms: 5, or 6 if the two products are transformed separately.
    """

    def __init__(self, flow: Flow, transforms: int) -> None:
        grid = flow.grid
        self.transforms, self.inverse_k2 = transforms, grid.inverse_k2
        self.ikx, self.iky = 1j * grid.kx, 1j * grid.ky
        e, dt = np.asarray(flow.decay), float(flow.dt) / 12
        self.now, self.weights = e, (23 * dt * e, -16 * dt * e**2, 5 * dt * e**3)
        self.damping = np.asarray(flow.damping)

    def step(
        self, zeta: NDArray[Any], before: NDArray[Any], long_before: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        psi = -self.inverse_k2 * zeta
        u, v = np.fft.irfft2(-self.iky * psi), np.fft.irfft2(self.ikx * psi)
        zeta_x, zeta_y = np.fft.irfft2(self.ikx * zeta), np.fft.irfft2(self.iky * zeta)
        if self.transforms == 5:
            tendency = -np.fft.rfft2(u * zeta_x + v * zeta_y)
        else:
            tendency = -(np.fft.rfft2(u * zeta_x) + np.fft.rfft2(v * zeta_y))
        first, second, third = self.weights
        advected = self.now * zeta + first * tendency + second * before + third * long_before
        return self.damping * advected, tendency, before


def _numpy(transforms: int) -> Callable[[Grid, int], _Run]:
    def make(grid: Grid, n_steps: int) -> _Run:
        flow, state = _flow(grid)
        plain = _Plain(flow, transforms)
        zeta = np.asarray(state.zeta)

        def run() -> Any:
            fields = (zeta, np.zeros_like(zeta), np.zeros_like(zeta))
            for _ in range(n_steps):
                fields = plain.step(*fields)
            return fields[0]

        return run, n_steps

    return make


def _numpy_against_ours() -> float:
    """Return the largest relative difference after a step; raise an error above 1e-12.

    Compared without aliasing, which differs between the two forms of the nonlinear term, and
    with the kicks of two steps added to both.
    """
    flow, state = _flow(Grid(256), truncate=True)
    assert flow.forcing is not None
    none = INTERPOLATIONS["bilinear"]
    state, x = begin(flow, state, jnp.zeros((0, 2)), none)
    kicks = flow.kicks(state, 2)
    ours = np.asarray(march(flow, state, x, none, 1, 1)[0].zeta)
    worst = 0.0
    for transforms in (5, 6):
        plain = _Plain(flow, transforms)
        fields = (np.asarray(state.zeta), *(np.asarray(older) for older in state.older))
        for kick in kicks:
            zeta, before, long_before = plain.step(*fields)
            zeta = np.asarray(flow.forcing.add(jnp.asarray(zeta), kick))
            fields = (zeta, before, long_before)
        worst = max(worst, float(np.max(np.abs(fields[0] - ours)) / np.max(np.abs(ours))))
    if worst > 1e-12:
        msg = f"the plain step in NumPy differs from ours by {worst:.1e}"
        raise AssertionError(msg)
    return worst


_OTHERS: dict[str, Callable[[Grid, int], _Run]] = {
    "pyqg-jax": _pyqg_jax,
    "exponax": _exponax,
    "jax-cfd": _jax_cfd,
    "NumPy, 5 transforms": _numpy(5),
    "NumPy, 6 transforms": _numpy(6),
}

r"""The paper's Runge--Kutta scheme for the particles, which is of first order, and its effect.

Its four stages, with weights 1/6, 1/3, 1/3, 1/6, take the velocity at t, t + h, t + h, t + h: on
average at t + 5h/6 instead of t + h/2. In space the scheme is the classical one, so a step's error
is $\tfrac13 h^2\,\partial_t\mathbf u + O(h^3)$, and particles obey
$$\dot{\mathbf x} = \mathbf u(\mathbf x, t + \tfrac13 h) + O(h^2)$$
To that order they move as if released h/3 later in the same flow. In a stationary flow no statistic
changes with h to first order.

White noise that raises the energy by ε per unit area and time makes each component of the velocity
a random walk of variance ε per unit time. A scheme of any order that samples it only at the steps
then has an error of h times the root of the time T; for both components together
$$h\sqrt{2\varepsilon T/9}\ \text{over two steps}, \qquad
  h\sqrt{2\varepsilon T/12}\ \text{for the paper's against a release h/3 later}$$
without amplification by shear.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from driftbayes._typing import FloatArray
from driftbayes.reproduce.discrepancies._published import DT, measured_flow
from driftbayes.reproduce.study import jackknife_variance
from driftbayes.turbulence.budgets import enstrophy_mean
from driftbayes.turbulence.flow import Dissipation, Flow, FlowState, ab3_step
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.march import evolve
from driftbayes.turbulence.noise import random_start
from driftbayes.turbulence.particles import (
    Field,
    Interpolation,
    Positions,
    Spline,
    advect,
    seed_particles,
)

# (flow with the particles' time step, interpolation, three fields, positions) → positions.
Scheme: TypeAlias = Callable[[Flow, Interpolation, tuple[Field, Field, Field], Positions], Array]
# Scheme, its step in steps of the flow, and the step of the flow at which it begins.
Task: TypeAlias = tuple[Scheme, int, int]

# The tiny preset's flow, from a field near its stationary energy.
_GRID, _K_F, _WIDTH, _EPSILON, _ENERGY = 128, 20.0, 2.0, 0.00636, 0.1
_SPIN_DT, _SPIN_UP = 2e-3, 10.0
# A smooth spline of the stream function isolates errors in time.
_SPLINE = Spline(5)
# Flow steps per particle step; multiples of 3, so that a third of it is a whole number of steps.
_STRIDES = (3, 6, 12, 24)
_BLOCK = 2 * _STRIDES[-1]
# Blocks before the particles are released: when forcing stops, the filter removes small scales
# within a few steps, which is not smooth in time.
_SETTLE = 20
# Squares along each side of the domain, for standard errors.
_SQUARES = 6


class ParticleScheme(SimpleNamespace):
    r"""Errors of the paper's scheme and this package's in the same flow.

    The first of two axes is (forced, unforced), because white noise makes velocities rough in time.

    Args:
        turnover_time: $\tau_\zeta$ of the flow when the particles are released.
        h: Time steps of the particles.
        h_over_turnover: Time steps over the turnover time; the first is the paper's.
        duration: Time for which particles are tracked, in turnover times.
        displacement: Rms displacement (flow).
        papers: Rms position error (flow, step) of the paper's scheme, against a reference by the
            fourth-order scheme with a third of the smallest step.
        ours: Rms error of this package's scheme over two steps.
        shifted: Rms difference between the reference and particles released h/3 later: the error
            that the closed form predicts.
        residual: Rms difference between the paper's scheme and particles released h/3 later.
        slope: Regression slope of the paper's error on the predicted one, expected to be 1.
        papers_order: Observed order of `papers` (flow, pair of steps).
        ours_order: Observed order of `ours`.
        residual_order: Observed order of `residual`.
        ours_noise: Error of this package's scheme (step) in the forced flow by the closed form,
            without shear.
        lags: Times after release, in turnover times.
        msd: Mean square displacement per axis in the forced flow, by the fourth-order scheme.
        msd_change: Its relative change by the paper's scheme at the paper's step.
        msd_change_error: Its standard error, by a jackknife over squares of the domain.
        msd_shift: Predicted relative change: the reference scheme with a release h/3 later.
        position_change: Rms difference of the two schemes' positions over the rms displacement.
        n_particles: Number of particles.
        seed: Random seed of flow and particles.
    """


def papers_advect(
    flow: Flow, interpolation: Interpolation, fields: tuple[Field, Field, Field], x: Positions
) -> Positions:
    """Return the positions two steps later by the paper's scheme; arguments as for `advect`."""
    h = flow.dt
    for now, later in (fields[:2], fields[1:]):
        first = interpolation.velocity(flow, now, x)
        second = interpolation.velocity(flow, later, x + 0.5 * h * first)
        third = interpolation.velocity(flow, later, x + 0.5 * h * second)
        fourth = interpolation.velocity(flow, later, x + h * third)
        x = x + h / 6 * (first + 2 * second + 2 * third + fourth)
    return x


def particle_scheme(
    seed: int = 0,
    *,
    duration: float = 4.0,
    n_particles: int = 500,
    lags: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 20.0),
) -> ParticleScheme:
    """Compare both schemes in a forced flow and in the same flow without forcing.

    Args:
        seed: Random seed of flow and particles.
        duration: Duration of the growth of errors, in turnover times.
        n_particles: Number of particles.
        lags: Times at which mean square displacements are compared, in turnover times.
    """
    zeta = _spin_up(seed)
    turnover = float(1 / jnp.sqrt(enstrophy_mean(Grid(_GRID), zeta)))
    step = turnover * DT / measured_flow().turnover_time
    flows = [
        _errors(zeta, step / _STRIDES[0], duration * turnover, n_particles, seed, forced=forced)
        for forced in (True, False)
    ]
    errors = {name: np.array([flow[name] for flow in flows]) for name in flows[0]}
    h = step * np.array(_STRIDES) / _STRIDES[0]
    return ParticleScheme(
        turnover_time=turnover,
        h=h,
        h_over_turnover=h / turnover,
        duration=duration,
        **errors,
        # Observed orders, from errors at steps that double along the last axis.
        **{
            f"{name}_order": np.log2(errors[name][..., 1:] / errors[name][..., :-1])
            for name in ("papers", "ours", "residual")
        },
        ours_noise=h * np.sqrt(2 * _EPSILON * duration * turnover / 9),
        lags=np.array(lags),
        **_dispersion(zeta, step, np.array(lags) * turnover, n_particles, seed),
        n_particles=n_particles,
        seed=seed,
    )


def _flow(dt: float, *, forced: bool = True) -> Flow:
    grid = Grid(_GRID)
    return Flow.make(
        grid,
        dt,
        # The same dissipation for any time step.
        dissipation=Dissipation(hypofriction=1.0, filter="rate", filter_dt=_SPIN_DT),
        forcing=Forcing.on_ring(grid, epsilon=_EPSILON, k_f=_K_F, width=_WIDTH) if forced else None,
    )


def _spin_up(seed: int) -> Complex[Array, "ky kx"]:
    """Run the forced flow until its enstrophy has settled; return the vorticity."""
    flow = _flow(_SPIN_DT)
    start = flow.start(jnp.asarray(random_start(flow.grid, seed, _ENERGY)), seed)
    return evolve(flow, start, 2 * round(_SPIN_UP / _SPIN_DT / 2)).zeta


def _release(n_particles: int, seed: int) -> Positions:
    x, y = seed_particles(n_particles, seed).T
    return jax.lax.complex(x, y)


@eqx.filter_jit
def _next_fields(flow: Flow, state: FlowState) -> tuple[FlowState, Float[Array, "step y x"]]:
    """Advance the flow by a block of steps; also return the spline coefficients after each."""
    kicks = flow.kicks(state, _BLOCK)
    kicks = kicks.reshape(_BLOCK // 2, 2, kicks.shape[1])

    def pair(carry: tuple[FlowState, Array], kicks: Array) -> tuple[Any, Array]:
        middle, q = ab3_step(flow, *carry, kicks[0])
        end, q = ab3_step(flow, middle, q, kicks[1])
        both = _SPLINE.coefficients(flow, middle.zeta, end.zeta)
        return (end, q), jnp.stack([c for c in both if c is not None])

    (state, _), pairs = jax.lax.scan(pair, (state, flow.velocity(state.zeta)), kicks)
    return state, pairs.reshape(_BLOCK, *pairs.shape[2:])


@eqx.filter_jit
def _first_field(flow: Flow, state: FlowState) -> Float[Array, "step y x"]:
    now, _ = _SPLINE.coefficients(flow, state.zeta, state.zeta)
    assert now is not None
    return now[None]


@eqx.filter_jit
def _advect_block(
    scheme: Scheme,
    flow: Flow,
    coefficients: Float[Array, "step y x"],
    stride: Int[Array, ""],
    first: Int[Array, ""],
    x: Positions,
) -> Positions:
    """Advance positions by a block, in steps of `stride` flow steps from flow step `first` on.

    Only grid and time step of `flow` are used; pass it without forcing to compile one program.
    """
    coarse = eqx.tree_at(lambda f: f.dt, flow, stride * flow.dt)
    # The spline uses its coefficients only.
    nothing = jnp.zeros((1, 1), jnp.complex128)

    def pair(i: Array, x: Array) -> Array:
        at = first + 2 * stride * i + stride * jnp.arange(3)
        start, middle, end = ((nothing, coefficients[at[j]]) for j in range(3))
        return scheme(coarse, _SPLINE, (start, middle, end), x)

    return jax.lax.fori_loop(0, _BLOCK // (2 * stride), pair, x)


def _track(
    zeta: Array, dt: float, start: Positions, tasks: Sequence[Task], seed: int, *, forced: bool
) -> Iterator[list[Positions]]:
    """Yield the positions of each task after every block, in a flow with the time step `dt`."""
    flow, bare = _flow(dt, forced=forced), _flow(dt, forced=False)
    state = evolve(flow, flow.start(zeta, seed + 1), _SETTLE * _BLOCK)
    x = [start] * len(tasks)
    last = _first_field(flow, state)
    state, block = _next_fields(flow, state)
    beyond = max(first for _, _, first in tasks)
    while True:
        state, after = _next_fields(flow, state)
        seen = jnp.concatenate([last, block, after[:beyond]])
        x = [
            _advect_block(scheme, bare, seen, jnp.asarray(stride), jnp.asarray(first), now)
            for (scheme, stride, first), now in zip(tasks, x, strict=True)
        ]
        last, block = block[-1:], after
        yield x


def _errors(
    zeta: Array, dt: float, duration: float, n_particles: int, seed: int, *, forced: bool
) -> dict[str, Any]:
    """Return position errors after a time, from one pass through a flow with time step `dt`."""
    start = _release(n_particles, seed)
    tasks: list[Task] = [(advect, 1, 0)]
    tasks += [(papers_advect, stride, 0) for stride in _STRIDES]
    tasks += [(advect, stride, 0) for stride in _STRIDES]
    tasks += [(advect, 1, stride // 3) for stride in _STRIDES]
    n_blocks = round(duration / (_BLOCK * dt))
    blocks = _track(zeta, dt, start, tasks, seed, forced=forced)
    x = next(islice(blocks, max(n_blocks - 1, 0), None))
    reference, *rest = (np.asarray(position) for position in x)
    papers, ours, late = np.array(rest).reshape(3, len(_STRIDES), -1)
    predicted, error = late - reference, papers - reference
    return {
        "displacement": _rms(reference - np.asarray(start)),
        "papers": _rms(error),
        "ours": _rms(ours - reference),
        "shifted": _rms(predicted),
        "residual": _rms(papers - late),
        "slope": np.real(np.sum(np.conj(predicted) * error, axis=-1))
        / np.sum(np.abs(predicted) ** 2, axis=-1),
    }


def _dispersion(
    zeta: Array, h: float, lags: FloatArray, n_particles: int, seed: int
) -> dict[str, FloatArray]:
    """Compare mean square displacements of both schemes at the paper's step in the forced flow."""
    start = _release(n_particles, seed)
    tasks: list[Task] = [(advect, 3, 0), (papers_advect, 3, 0), (advect, 3, 1)]
    ends = np.maximum(np.round(lags / (_BLOCK * h / 3)), 1).astype(int)
    squares, apart = [], []
    # Steps of a third of h, so that a release h/3 later can be tracked too.
    blocks = _track(zeta, h / 3, start, tasks, seed, forced=True)
    for n, x in enumerate(islice(blocks, int(ends[-1])), 1):
        if n in ends:
            moved = np.array([np.asarray(position - start) for position in x])
            squares.append(np.abs(moved) ** 2 / 2)
            apart.append(_rms(moved[1] - moved[0]) / _rms(moved[0]))
    ours, papers, late = np.moveaxis(np.array(squares), 1, 0)
    msd = ours.mean(axis=-1)
    return {
        "msd": msd,
        "msd_change": papers.mean(axis=-1) / msd - 1,
        "msd_change_error": _jackknife(np.asarray(start), ours, papers),
        "msd_shift": late.mean(axis=-1) / msd - 1,
        "position_change": np.array(apart),
    }


def _jackknife(start: np.ndarray, ours: FloatArray, papers: FloatArray) -> FloatArray:
    """Return the standard error of the relative change of a mean, by a jackknife over squares."""
    side = 2 * np.pi / _SQUARES
    square = np.floor(start.real / side) * _SQUARES + np.floor(start.imag / side)
    rest = [square != s for s in range(_SQUARES**2)]
    left_out = [papers[:, kept].mean(axis=-1) / ours[:, kept].mean(axis=-1) for kept in rest]
    return np.sqrt(jackknife_variance(np.array(left_out), axis=0))


def _rms(z: np.ndarray) -> FloatArray:
    return np.asarray(np.sqrt(np.mean(np.abs(z) ** 2, axis=-1)))

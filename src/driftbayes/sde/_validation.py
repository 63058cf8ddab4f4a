"""Checks of a user's functions, with messages that name the file and the line."""

import inspect
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes._precision import in_double_precision
from driftbayes.errors import DriftbayesError
from driftbayes.sde._law import Law

# Dimensions that data may have; a function has to work for one of them.
_DIMENSIONS = (2, 1, 3)


def location_of(function: Callable[..., Any]) -> str:
    """Return file and first line of a function, for messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f" ({code.co_filename}, line {code.co_firstlineno})"


def _location_of_error(function: Callable[..., Any], error: BaseException) -> str:
    """Return file and line of the user's code at which an error was raised."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file = getattr(code, "co_filename", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else location_of(function)


def _functions(law: Law) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Yield each function of a law: its name, the function, and a call with (x, u, t, theta, v)."""
    for name in ("drift", "diffusion"):
        function = getattr(law, name)
        yield name, function, partial(law.call, function)
    if law.initial_velocity is not None:
        start = law.initial_velocity
        yield "initial_velocity", start, lambda x, u, t, th, v: start(x, t, th)
    if law.hidden is not None:
        hidden = law.hidden
        for name in ("drift", "diffusion"):
            function = getattr(hidden, name)
            yield f"hidden.{name}", function, lambda x, u, t, th, v, f=function: f(v, x, u, t, th)
        yield "hidden.initial", hidden.initial, lambda x, u, t, th, v: hidden.initial(x, t, th)


@in_double_precision
def check_law(law: Law) -> None:
    """Check that functions can be called and return arrays of the right shape.

    Functions are evaluated abstractly in one to three dimensions and must work in one of them.

    Raises:
        DriftbayesError: The message names the function, what it returned, and the line.
    """
    if not law.parameters:
        raise DriftbayesError(f"{law.name} has no parameter; give at least one with its prior")
    if not law.hidden_velocity and law.initial_velocity is not None:
        msg = f"initial_velocity of {law.name} needs hidden_velocity=True; omit it"
        raise DriftbayesError(msg)
    for name, function, _ in _functions(law):
        if not callable(function):
            raise DriftbayesError(f"{name} of {law.name} must be a function, got {function!r}")
    problems = [_problem(law, n_dim) for n_dim in _DIMENSIONS]
    if all(problems):
        raise DriftbayesError(problems[0])


def _problem(law: Law, n_dim: int) -> str:
    """Describe the first problem of a law's functions in n_dim dimensions; empty if none."""
    scalar = jax.ShapeDtypeStruct((), jnp.float64)
    vector = jax.ShapeDtypeStruct((n_dim,), jnp.float64)
    extra = jax.ShapeDtypeStruct((law.n_hidden,), jnp.float64)
    theta = law.theta(*(scalar for _ in law.parameters))
    for name, function, call in _functions(law):
        try:
            result = jax.eval_shape(call, vector, vector, scalar, theta, extra)
        except Exception as error:
            kind = type(error).__name__
            text = str(error).splitlines()[0] if str(error) else ""
            location = _location_of_error(function, error)
            return f"{name} of {law.name} failed with {kind}: {text}{location}"
        is_hidden = name.startswith("hidden")
        expected = (law.n_hidden,) if is_hidden else (n_dim,)
        parts = result if isinstance(result, tuple) else (result,)
        may_be_pair = name in ("initial_velocity", "hidden.initial")
        for part in parts:
            shape = getattr(part, "shape", None)
            allowed = (expected,) if name == "drift" else (expected, ())
            if shape not in allowed or (isinstance(result, tuple) and not may_be_pair):
                got = f"an array of shape {shape}" if shape is not None else repr(part)
                got = "a tuple" if isinstance(result, tuple) and not may_be_pair else got
                also = "" if name == "drift" else ", or one number for all"
                return (
                    f"{name} of {law.name} must return {expected[0]} numbers, one per "
                    f"{'variable' if is_hidden else 'axis'}{also}, got {got}{location_of(function)}"
                )
            if not jnp.issubdtype(part.dtype, jnp.floating):
                return (
                    f"{name} of {law.name} must return real numbers, got {part.dtype}"
                    f"{location_of(function)}"
                )
    return ""


@in_double_precision
def check_at(law: Law, theta: Any, points: tuple[Array, Array, Array]) -> None:
    """Check that functions return finite numbers, and positive diffusions, at the data.

    Args:
        law: The equation.
        theta: Parameters, for example the medians of their priors.
        points: Positions and velocities, (point, dim), and times.

    Raises:
        DriftbayesError: A number is not finite, or a diffusion is not positive.
    """
    x, u, t = (jnp.asarray(part) for part in points)
    if problem := _problem(law, x.shape[1]):
        raise DriftbayesError(f"with data of {x.shape[1]} dimensions, {problem}")
    noise = jnp.zeros(law.n_hidden)
    hidden = jax.jit(jax.vmap(lambda x, t: law.initial_hidden(x, t, theta, noise)))(x, t)
    parameters = ", ".join(f"{k} = {float(v):.4g}" for k, v in theta._asdict().items())
    for name, function, call in _functions(law):
        at_each = jax.vmap(lambda x, u, t, v, call=call: call(x, u, t, theta, v))
        # One program instead of one for each operation of the user.
        result = jax.jit(at_each)(x, u, t, hidden)
        is_pair = isinstance(result, tuple)
        for number, part in enumerate(result if is_pair else (result,)):
            values = np.asarray(part).reshape(len(x), -1)
            is_spread = name.endswith("diffusion") or (is_pair and number == 1)
            is_bad = ~np.isfinite(values).all(axis=1)
            problem_text = "NaN or infinity"
            if not is_bad.any() and is_spread:
                is_bad = ~(values > 0).all(axis=1)
                problem_text = "a value that is not positive"
            if is_bad.any():
                at = int(np.argmax(is_bad))
                where = f"x = {np.asarray(x[at]).round(6).tolist()}"
                if law.hidden_velocity:
                    where += f", u = {np.asarray(u[at]).round(6).tolist()}"
                raise DriftbayesError(
                    f"{name} of {law.name} gives {problem_text} at {where}, t = {float(t[at]):.6g} "
                    f"with {parameters}{location_of(function)}; change the function, or the prior"
                )
    if law.hidden_velocity and law.initial_velocity is None:
        rest = jnp.zeros_like(x[0])
        at_rest = jax.vmap(
            lambda x, t, v: law.coefficients((x, rest, v), t, jnp.zeros(()), theta).rate
        )
        rates = jax.jit(at_rest)(x, t, hidden)
        if not bool(jnp.all(rates > 0)):
            raise DriftbayesError(
                f"{law.name} has no stationary velocity: its drift at rest does not decrease with "
                f"the velocity ({parameters}){location_of(law.drift)}; pass initial_velocity"
            )

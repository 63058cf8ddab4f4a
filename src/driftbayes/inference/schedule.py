"""Temperatures and proposals of a tempered run, recorded so that another run can follow them."""

__all__ = ["Schedule", "Tuning", "fixed", "new_schedule"]

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from driftbayes.inference.metropolis import Cloud
from driftbayes.jax_typing import Scalar


class Tuning(NamedTuple):
    """What a step in temperature is adapted by.

    Args:
        beta: β after the step.
        cloud: For the proposals.
        log_scale: Logarithm of the length of near steps.
        fit: Share of far proposals accepted.
    """

    beta: Scalar
    cloud: Cloud
    log_scale: Scalar
    fit: Scalar


class Schedule(eqx.Module):
    """Tuning of every step.

    A run that follows the schedule of another is not adapted to its own particles: its evidence has
    no bias from adaptation.

    Args:
        is_fixed: Whether it is followed; otherwise it is recorded.
        steps: Tuning, stacked along the first axis.
    """

    is_fixed: Bool[Array, ""]
    steps: Tuning

    def tuning(self, number: Int[Array, ""], adapted: Tuning) -> Tuning:
        """Choose the tuning of a step: as planned, or as adapted."""
        planned = jax.tree.map(lambda a: a[number], self.steps)
        return jax.tree.map(lambda a, b: jnp.where(self.is_fixed, a, b), planned, adapted)

    def recorded(self, number: Int[Array, ""], used: Tuning) -> "Schedule":
        """The schedule with the tuning that a step ended with."""
        steps = jax.tree.map(lambda a, b: a.at[number].set(b), self.steps, used)
        return Schedule(self.is_fixed, steps)


def new_schedule(n_steps: int, n_dim: int) -> Schedule:
    """Make room for a schedule to be recorded."""
    zero = jnp.zeros(())
    single = Tuning(zero, Cloud(jnp.zeros(n_dim), jnp.zeros((n_dim, n_dim))), zero, zero)
    # Stacked as a tree: the annotations of `Cloud` are those of a single step.
    stacked = jax.tree.map(lambda a: jnp.zeros((n_steps, *a.shape)), single)
    return Schedule(jnp.zeros((), dtype=bool), stacked)


def fixed(schedule: Schedule) -> Schedule:
    """The schedule, to be followed."""
    return Schedule(jnp.ones((), dtype=bool), jax.tree.map(np.asarray, schedule.steps))

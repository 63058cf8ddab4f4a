"""What the child process computes for the page. Everything here runs there."""

__all__ = ["compare", "compare_tau", "keep", "prepare", "simulate", "warm_up"]

from collections.abc import Mapping, Sequence
from typing import Any

from driftbayes import comparison
from driftbayes.comparison import Comparison
from driftbayes.explore import simulate as simulation
from driftbayes.explore.dataset import DataSet, Portable
from driftbayes.explore.drawing import fits_panel
from driftbayes.explore.judge import Question, shown

# Data sets by their keys, as the parent sent them.
_kept: dict[str, DataSet] = {}


def prepare() -> None:
    """Set JAX to double precision: the process is ours alone."""
    import jax

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003


def keep(key: str, data: Portable, dropped: Sequence[str]) -> None:
    """Keep a data set for the computations to come, and forget others.

    Args:
        key: By which it will be asked for.
        data: The data set.
        dropped: Keys of those that will not be asked for again.
    """
    for old in dropped:
        _kept.pop(old, None)
    _kept[key] = DataSet.unpacked(data)


def simulate(wish: Mapping[str, Any]) -> Portable:
    """Trajectories from a model; see `driftbayes.explore.simulate`."""
    return simulation.simulate(wish).portable


def compare(key: str, question: Question, tau: float | None) -> dict[str, Any]:
    """The verdict at one sampling time, for the page.

    Args:
        key: Of the data set.
        question: Models and priors.
        tau: Sampling time; None takes every fix at its own interval.
    """
    data = _kept[key]
    setup = question.setup(data.trajectories)
    found = comparison.compare_hypotheses(setup.hypotheses, data.displacements(tau))
    fits = fits_panel(data, setup.hypotheses, found)
    return {
        **shown(data, question, setup, found),
        "tau": found.tau,
        "fits": None if fits is None else {"svg": fits[0], **fits[1]},
    }


def compare_tau(key: str, question: Question, tau: float) -> Comparison:
    """The comparison at one sampling time of a scan.

    Args:
        key: Of the data set.
        question: Models and priors.
        tau: Sampling time.
    """
    data = _kept[key]
    setup = question.setup(data.trajectories)
    return comparison.compare_hypotheses(setup.hypotheses, data.displacements(tau))


def warm_up() -> None:
    """Compile what the first request will most likely need."""
    sliders = simulation.sliders()[str(simulation.START["model"])]
    theta = {one["name"]: one["value"] for one in sliders}
    data = simulation.simulate({**simulation.START, "theta": theta})
    setup = Question(("brownian", "langevin")).setup(data.trajectories)
    found = comparison.compare_hypotheses(setup.hypotheses, data.displacements(data.taus[0]))
    fits_panel(data, setup.hypotheses, found)

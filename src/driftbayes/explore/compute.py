"""Computation in a child process, one request at a time.

Neither a compiler nor a long integral can be interrupted from another thread, but a process can be
killed if its result is no longer wanted. Compiled programs are cached on disk for the next process.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from driftbayes._processes import Child, ChildDied
from driftbayes.comparison import Comparison, compare_hypotheses
from driftbayes.errors import DriftbayesError
from driftbayes.explore.answers import CompareRequest, comparison_answer
from driftbayes.explore.dataset import START, DataSet, Portable, simulate, sliders
from driftbayes.inference import Hypothesis
from driftbayes.workflow._analyses import with_doubts

# Seconds between checks whether the result is still wanted.
_POLL = 0.1
# Seconds for which an unwanted computation may continue, since starting a process takes longer.
_GRACE = 1.0
# Maximum number of data sets in the child.
_MAX_DATA = 4

# Data sets in the child, by key.
_kept: dict[str, DataSet] = {}


class Abandoned(Exception):
    """The result is no longer wanted."""


def prepare() -> None:
    """Enable double precision of JAX in the child."""
    import jax

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003


def keep(key: str, data: Portable, dropped: Sequence[str]) -> None:
    """Keep a data set in the child, and drop others.

    Args:
        key: Key of the data set.
        data: The data set.
        dropped: Keys of data sets to drop.
    """
    for old in dropped:
        _kept.pop(old, None)
    _kept[key] = DataSet(*data)


def simulate_data(request: Mapping[str, Any]) -> Portable:
    """Simulate trajectories in the child; see `driftbayes.explore.dataset.simulate`."""
    return simulate(request).portable


def compare(key: str, request: CompareRequest, tau: float | None) -> dict[str, Any]:
    """Compare models at one sampling time in the child, and describe the result for the page.

    Args:
        key: Key of the data set.
        request: Models and priors.
        tau: Sampling time; None uses every fix at its own interval.
    """
    data = _kept[key]
    hypotheses = request.hypotheses(data.trajectories, tau)
    found = compare_tau(key, hypotheses.hypotheses, tau)
    return comparison_answer(data, request, hypotheses, found)


def compare_tau(key: str, hypotheses: Sequence[Hypothesis], tau: float | None) -> Comparison:
    """Compare hypotheses at one sampling time in the child, with caveats."""
    data = _kept[key]
    steps = data.displacements(tau)
    return with_doubts(data.trajectories, compare_hypotheses(hypotheses, steps), steps, hypotheses)


def warm_up() -> None:
    """Compile the programs of a typical first request in the child."""
    theta = {about["name"]: about["value"] for about in sliders()[str(START["model"])]}
    data = simulate({**START, "theta": theta})
    keep(data.key, data.portable, ())
    compare(data.key, CompareRequest(("brownian", "langevin")), data.taus[0])
    del _kept[data.key]


class ComputeProcess:
    """Child process that computes for all requests, one at a time.

    Args:
        prepare: Called in the child before anything else.
    """

    def __init__(self, prepare: Callable[[], None] = prepare) -> None:
        self._prepare = prepare
        self._changed = threading.Condition()
        self._busy = self._closed = False
        self._waiting = 0
        self._child: Child | None = None
        self._sent: OrderedDict[str, None] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether something is being computed."""
        return self._busy

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        data: DataSet | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
        when_idle: bool = False,
    ) -> Any:
        """Call a function in the child and wait for its result.

        Args:
            function: Function that the child can import.
            *arguments: Arguments of the function.
            data: Data set, whose key becomes the first argument; it is sent once.
            is_wanted: Returns whether the result is still wanted.
            when_idle: Whether to wait until there are no other requests.

        Raises:
            Abandoned: The result is no longer wanted, or this process ends.
            DriftbayesError: The child raised it, or was killed.
        """
        with self._turn(is_wanted, when_idle=when_idle):
            try:
                child = self._started()
                if data is not None:
                    self._send_data(child, data)
                    arguments = (data.key, *arguments)
                child.send(function, *arguments)
                self._wait(child, is_wanted)
                return child.receive()
            except ChildDied as error:
                self._forget()
                if self._closed:
                    raise Abandoned from error
                raise DriftbayesError(
                    f"the system ended the computation ({error.reason}), probably for lack of "
                    "memory; use fewer data or fewer models"
                ) from error

    def close(self) -> None:
        """End the child, even if it is busy."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._child is not None and self._busy:
                # The waiting thread cleans up.
                self._child.interrupt()
            else:
                self._forget()

    @contextmanager
    def _turn(self, is_wanted: Callable[[], bool], *, when_idle: bool) -> Iterator[None]:
        with self._changed:
            self._waiting += not when_idle
            try:
                while not self._closed and (self._busy or (when_idle and self._waiting)):
                    self._changed.wait(_POLL)
                    if not is_wanted():
                        raise Abandoned
                if self._closed or not is_wanted():
                    raise Abandoned
                self._busy = True
            finally:
                self._waiting -= not when_idle
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _started(self) -> Child:
        if self._child is None:
            self._child = Child(self._prepare)
            if self._closed:
                # Closed by another thread in the meantime.
                self._child.kill()
                raise Abandoned
        return self._child

    def _forget(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._child = None
        self._sent.clear()

    def _send_data(self, child: Child, data: DataSet) -> None:
        if data.key in self._sent:
            self._sent.move_to_end(data.key)
            return
        self._sent[data.key] = None
        dropped = [self._sent.popitem(last=False)[0] for _ in range(len(self._sent) - _MAX_DATA)]
        child.send(keep, data.key, data.portable, dropped)
        child.receive()

    def _wait(self, child: Child, is_wanted: Callable[[], bool]) -> None:
        unwanted_since: float | None = None
        while not child.has_answered(_POLL):
            now = time.monotonic()
            unwanted_since = None if is_wanted() else unwanted_since or now
            if unwanted_since is not None and now - unwanted_since >= _GRACE:
                self._forget()
                # Start the next process at once, to be ready for the next request.
                self._started()
                raise Abandoned
        if unwanted_since is not None:
            child.receive()
            raise Abandoned

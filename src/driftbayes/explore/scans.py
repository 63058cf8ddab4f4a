"""Scans in the background: sampling time after sampling time, to be looked at meanwhile."""

__all__ = ["ScanJob"]

import shlex
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from driftbayes.comparison import Comparison, Scan
from driftbayes.comparison.scan import provenance_attrs
from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.explore import tasks
from driftbayes.explore.compute import Abandoned, ComputeProcess
from driftbayes.explore.dataset import DataSet
from driftbayes.explore.judge import Question, colours
from driftbayes.report import content

if TYPE_CHECKING:
    import xarray as xr


class ScanJob:
    """One scan, in a thread of its own.

    Args:
        data: The trajectories.
        question: Models and priors.
        compute: Where it may compute when nobody else does.
    """

    def __init__(self, data: DataSet, question: Question, compute: ComputeProcess) -> None:
        if not data.taus:
            msg = "a scan over sampling times needs regular times, and these are not"
            raise DriftbayesError(msg)
        self.data, self.question, self._compute = data, question, compute
        # What is wrong with the models or priors is said at once.
        question.setup(data.trajectories)
        self.state, self.error = "running", ""
        self._found: list[Comparison] = []
        self._skipped: dict[float, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scan", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """Compute no further sampling time, nor finish the present one; those done stay."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, after waiting for it.

        Args:
            seconds: How long to wait at the most.
        """
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def n_done(self) -> int:
        """Sampling times that are over with."""
        return len(self._found) + len(self._skipped)

    def dataset(self) -> "xr.Dataset":
        """What is known so far, as `driftbayes.scan` would have it for these sampling times."""
        found = tuple(self._found)
        if not found:
            reasons = list(self._skipped.values())
            raise DriftbayesError(reasons[0] if reasons else "no sampling time is done yet; wait")
        trajectories = self.data.trajectories
        attributes = provenance_attrs(
            trajectories.fingerprint,
            trajectories.provenance,
            n_tau=None,
            seed=0,
            windows="first",
            gaps="split",
            coords="natural",
            prior_probabilities=None,
        )
        return Scan(found, dict(self._skipped), attributes).to_dataset()

    def shown(self, have: int = -1) -> dict[str, Any]:
        """How far it is; with panels and sentences, if there are more than the page has.

        Args:
            have: How many sampling times the page shows already.
        """
        # In this order: what is done when the state is read is shown, if that says it is over.
        state, done = self.state, self.n_done
        result: dict[str, Any] = {
            "state": state,
            "done": done,
            "total": len(self.data.taus),
            "error": self.error,
        }
        if done <= have or not self._found:
            return result
        dataset = self.dataset()
        panels = content.panels(dataset)
        return {
            **result,
            "verdict": content.verdict(dataset),
            "skipped": list(self._skipped.values()),
            "colours": colours([str(name) for name in dataset["model"].values]),
            "taus": [float(tau) for tau in dataset["tau"].values],
            "tau_texts": [
                readable_time(float(tau), str(dataset.attrs["time_unit"]))
                for tau in dataset["tau"].values
            ],
            "panels": [
                {
                    "name": panel.name,
                    "title": panel.title,
                    "scales": panel.drawn_scales,
                    "svg": panel.svg(),
                    "x": panel.x_places(),
                }
                for panel in panels
            ],
            "commands": self._commands(dataset),
        }

    def _commands(self, dataset: "xr.Dataset") -> list[str]:
        words = shlex.split(content.repeat_command(dataset))
        # The file as this page calls it: of one that was named, with its directories.
        words[2] = self.data.name
        lines = [shlex.join(self.data.made_by)] if self.data.made_by else []
        return [*lines, shlex.join([*words, "-o", "scan.nc"])]

    def _run(self) -> None:
        try:
            for tau in self.data.taus:
                self._add(tau)
            self.state = "done"
        except Abandoned:
            self.state = "cancelled"
        except DriftbayesError as error:
            self.state, self.error = "failed", str(error)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            self.state = "failed"
            self.error = "internal error; what happened is in the terminal"

    def _add(self, tau: float) -> None:
        try:
            self.data.displacements(tau)
        except DriftbayesError as error:
            # One sampling time that the trajectories are too short for must not cost the others.
            self._skipped[tau] = str(error)
            return
        found = self._compute.call(
            *(tasks.compare_tau, self.question, tau),
            data=self.data,
            is_wanted=lambda: not self._stop.is_set(),
            when_idle=True,
        )
        self._found.append(found)

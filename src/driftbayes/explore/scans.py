"""Scans over sampling times in the background, with intermediate results."""

import sys
import threading
import traceback
from dataclasses import asdict
from typing import Any

from driftbayes.comparison import Comparison, Scan
from driftbayes.comparison._describe_scan import (
    PARAMETER_NOTE,
    scan_command,
    scan_panels,
    scan_verdict,
)
from driftbayes.comparison._scan import provenance_attrs
from driftbayes.data._sampling import WHOLE
from driftbayes.data._units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.explore import compute
from driftbayes.explore.answers import CompareRequest, panel_answer
from driftbayes.explore.dataset import DataSet
from driftbayes.report._svg import page_colours


class ScanJob:
    """Scan in a separate thread.

    Args:
        data: The data set.
        request: Models and priors.
        process: Process that computes when it is idle.
    """

    def __init__(
        self, data: DataSet, request: CompareRequest, process: compute.ComputeProcess
    ) -> None:
        if not data.taus:
            raise DriftbayesError("a scan needs regular times, but these are irregular")
        self.data, self._process = data, process
        # Raises at once if models or priors are wrong.
        self._hypotheses = request.hypotheses(data.trajectories, min(data.taus)).hypotheses
        self.state, self.error = "running", ""
        self._found: list[Comparison] = []
        self._skipped: dict[float, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scan", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop, even within a sampling time; completed ones are kept."""
        self._stop.set()

    @property
    def n_done(self) -> int:
        """Number of sampling times computed or skipped."""
        return len(self._found) + len(self._skipped)

    def scan(self) -> Scan:
        """Return the scan of the completed sampling times, as `driftbayes.scan` would."""
        found = tuple(self._found)
        if not found:
            reasons = list(self._skipped.values())
            raise DriftbayesError(reasons[0] if reasons else "no results yet; wait")
        trajectories = self.data.trajectories
        attributes = provenance_attrs(
            trajectories.fingerprint,
            trajectories.provenance,
            prior_probabilities=None,
            **asdict(WHOLE),
            seed=0,
            coords="natural",
        )
        return Scan(found, dict(self._skipped), attributes)

    def answer(self, have: int = -1) -> dict[str, Any]:
        """Describe the progress, with panels and sentences if there are new results.

        Args:
            have: Number of sampling times that the page already shows.
        """
        # The state is read first, so that a final state includes all results.
        state, done = self.state, self.n_done
        progress = {"state": state, "done": done, "total": len(self.data.taus), "error": self.error}
        if done <= have or not self._found:
            return progress
        scan = self.scan()
        command = scan_command(scan, self.data.name, "scan.nc")
        unit = scan.comparisons[0].time_unit
        return {
            **progress,
            "verdict": scan_verdict(scan),
            "skipped": list(self._skipped.values()),
            "colours": page_colours(scan.models),
            "note": PARAMETER_NOTE,
            "taus": scan.taus.tolist(),
            "tau_texts": [readable_time(float(tau), unit) for tau in scan.taus],
            "panels": [panel_answer(panel) for panel in scan_panels(scan)],
            "commands": [*([self.data.made_by] if self.data.made_by else []), command],
        }

    def _run(self) -> None:
        try:
            for tau in self.data.taus:
                self._add(tau)
            self.state = "done"
        except compute.Abandoned:
            self.state = "cancelled"
        except DriftbayesError as error:
            self.state, self.error = "failed", str(error)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            self.state = "failed"
            self.error = "internal error; see the terminal"

    def _add(self, tau: float) -> None:
        try:
            self.data.displacements(tau)
        except DriftbayesError as error:
            # Trajectories may be too short for one sampling time but not for others.
            self._skipped[tau] = str(error)
            return
        found = self._process.call(
            *(compute.compare_tau, self._hypotheses, tau),
            data=self.data,
            is_wanted=lambda: not self._stop.is_set(),
            when_idle=True,
        )
        self._found.append(found)

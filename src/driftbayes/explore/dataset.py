"""One set of trajectories on the page: what it is, which sampling times suit it, how to repeat."""

__all__ = ["DataSet", "Portable", "Read", "Reading", "read_plainly"]

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from driftbayes.data.sampling import Displacements, displacements, snap_taus
from driftbayes.data.trajectories import Trajectories
from driftbayes.diagnostics.survey import Survey, survey
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories
from driftbayes.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Reading:
    """What came out of a file.

    Args:
        trajectories: Where the particles were.
        format: What the file is, in words; empty if that is not known.
        words: Options of the command line that read it so.
        notes: What was done to it, in words.
    """

    trajectories: Trajectories
    format: str = ""
    words: Sequence[str] = ()
    notes: Sequence[str] = ()


# What is sent of a data set to another process: what was read, its name, and what made it.
Portable: TypeAlias = tuple[Reading, str, Sequence[str]]
# From a file, and options as the command line has them.
Read = Callable[[Path, str], Reading]


def read_plainly(path: Path, options: str) -> Reading:
    """A file as it is; options are the command line's to understand.

    Args:
        path: The file or folder.
        options: Must be empty.
    """
    if options.strip():
        msg = f"options of reading are known to the command `driftbayes explore`, got {options!r}"
        raise DriftbayesError(msg)
    return Reading(read_trajectories(path))


@dataclass(frozen=True, eq=False)
class DataSet:
    """Trajectories that models are tried on.

    Args:
        reading: The trajectories, and how they were read.
        name: As the page shows it, and as commands name the file.
        made_by: The command that made the file, if it was simulated.
        path: Where the file lies, to be read again with other options.
        key: By which a process that computes knows it.
    """

    reading: Reading
    name: str
    made_by: Sequence[str] = ()
    path: Path | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    _cut: dict[float | None, Displacements] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def portable(self) -> Portable:
        """What another process needs of it."""
        return self.reading, self.name, self.made_by

    @classmethod
    def unpacked(cls, portable: Portable) -> "DataSet":
        """The same data set in another process.

        Args:
            portable: As `portable` gave it.
        """
        reading, name, made_by = portable
        return cls(reading, name, made_by=made_by)

    @property
    def trajectories(self) -> Trajectories:
        """Where the particles were."""
        return self.reading.trajectories

    @cached_property
    def survey(self) -> Survey:
        """How they are sampled."""
        return survey(self.trajectories)

    @cached_property
    def taus(self) -> list[float]:
        """Sampling times that suit them; none if every fix is better used at its own interval."""
        low, high = self.survey.tau_low, self.survey.tau_high
        if low is None or high is None:
            return []
        wanted = np.geomspace(low, high, self.survey.n_taus)
        return [float(tau) for tau in snap_taus(self.trajectories, wanted)]

    @cached_property
    def spread(self) -> FloatArray:
        """Mean square displacement per axis over twice the time, at each of these."""
        return np.array([self._spread(tau) for tau in self.taus])

    def _spread(self, tau: float) -> float:
        try:
            dx = self.displacements(tau).dx
        except DriftbayesError:
            # Runs between gaps may all be shorter than this.
            return float("nan")
        return float(np.mean(dx**2) / (2 * tau))

    def displacements(self, tau: float | None) -> Displacements:
        """Displacements at a sampling time, cut once: what engines make of them is kept with them.

        Args:
            tau: Sampling time; None takes every fix at its own interval.
        """
        with self._lock:
            if tau not in self._cut:
                self._cut[tau] = displacements(self.trajectories, tau)
            return self._cut[tau]

    def words(self, command: str) -> list[str]:
        """The beginning of a command on this file.

        Args:
            command: Its name.
        """
        return ["driftbayes", command, self.name, *self.reading.words]

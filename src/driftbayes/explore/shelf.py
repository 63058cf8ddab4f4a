"""What is kept while the server runs: a few data sets and scans, and one temporary folder."""

__all__ = ["Shelf"]

import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from driftbayes.errors import DriftbayesError
from driftbayes.explore.dataset import DataSet
from driftbayes.explore.scans import ScanJob
from driftbayes.storage.leftovers import sweep, temporary_path

# The oldest go first.
_MOST_DATA, _MOST_SCANS = 12, 6
# Every move of a slider makes new data: of one page only the last few, so that they do not push
# out the files of another. Not only the last, which its comparison may be late for.
_MOST_OF_A_PAGE = 3


class Shelf:
    """Data sets and scans by number; uploads in a folder that is removed at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: OrderedDict[str, DataSet] = OrderedDict()
        self._simulated: OrderedDict[str, list[str]] = OrderedDict()
        self._scans: OrderedDict[str, ScanJob] = OrderedDict()
        self._first = ""
        place = Path(tempfile.gettempdir())
        # Of sessions that were killed outright.
        sweep(place)
        self.folder = temporary_path(place / "explore")
        self.folder.mkdir(mode=0o700)

    def close(self) -> None:
        """Stop the scans, and remove everything that was uploaded."""
        for job in list(self._scans.values()):
            job.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_folder(self) -> Path:
        """An empty folder for one upload."""
        folder = self.folder / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return folder

    def new_file(self, suffix: str) -> Path:
        """A path for a file of ours.

        Args:
            suffix: Its ending.
        """
        return self.folder / f"{secrets.token_hex(8)}{suffix}"

    def keep(self, data: DataSet, page: str = "") -> str:
        """Put a data set on the shelf; its number is returned.

        Args:
            data: The data set.
            page: Whose slider made it, if one did.
        """
        number = secrets.token_hex(6)
        with self._lock:
            self._data[number] = data
            if page:
                own = self._simulated.setdefault(page, [])
                own.append(number)
                self._simulated.move_to_end(page)
                while len(own) > _MOST_OF_A_PAGE:
                    self._drop(own.pop(0))
            while len(self._data) > _MOST_DATA:
                self._drop(next(one for one in self._data if one != self._first))
            while len(self._simulated) > _MOST_DATA:
                self._simulated.popitem(last=False)
        return number

    def begin_with(self, number: str) -> None:
        """Let every page begin with a data set, which is then kept to the end.

        Args:
            number: Of the data set.
        """
        self._first = number

    @property
    def first(self) -> tuple[str, DataSet] | None:
        """What every page begins with."""
        with self._lock:
            found = self._data.get(self._first)
        return None if found is None else (self._first, found)

    def data(self, number: Any) -> DataSet:
        """A data set by its number."""
        with self._lock:
            found = self._data.get(str(number))
            if found is not None:
                self._data.move_to_end(str(number))
        if found is None:
            msg = "these data are no longer kept; drop the file again, or simulate again"
            raise DriftbayesError(msg)
        return found

    def keep_scan(self, job: ScanJob) -> str:
        """Put a scan on the shelf; the oldest of too many is stopped and forgotten.

        Args:
            job: The scan.
        """
        number = secrets.token_hex(6)
        with self._lock:
            self._scans[number] = job
            while len(self._scans) > _MOST_SCANS:
                self._scans.popitem(last=False)[1].cancel()
        return number

    def scan(self, number: Any) -> ScanJob:
        """A scan by its number."""
        with self._lock:
            found = self._scans.get(str(number))
        if found is None:
            msg = "this scan is no longer kept; start it again"
            raise DriftbayesError(msg)
        return found

    def _drop(self, number: str) -> None:
        """Forget a data set, and remove its file if it is ours and no other was read from it."""
        old = self._data.pop(number, None)
        if old is None or old.path is None or self.folder not in old.path.parents:
            return
        if not any(other.path == old.path for other in self._data.values()):
            shutil.rmtree(old.path.parent, ignore_errors=True)

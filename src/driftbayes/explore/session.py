"""State of the server: data sets, scans, uploaded files, and the newest request of each kind."""

import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from driftbayes._storage.leftovers import sweep, temporary_path
from driftbayes.errors import DriftbayesError
from driftbayes.explore.dataset import DataSet
from driftbayes.explore.scans import ScanJob

# The oldest are dropped first.
_MAX_DATA, _MAX_SCANS = 12, 6
# Every move of a slider makes new data. Few of each page are kept, so that they do not displace
# files, but more than one, since a late comparison may need an earlier one.
_MAX_SIMULATED = 3
# Limits the numbers left by closed pages.
_MAX_KINDS = 1000


class LatestOnly:
    """Counter of requests by kind, to drop all but the newest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def enter(self, kind: str) -> int:
        """Return the number of a new request, which is now the newest."""
        with self._lock:
            number = self._newest.pop(kind, 0) + 1
            # Inserted last, so that the least recently used kinds are deleted first.
            self._newest[kind] = number
            while len(self._newest) > _MAX_KINDS:
                del self._newest[next(iter(self._newest))]
            return number

    def is_newest(self, kind: str, number: int) -> bool:
        """Return whether there is no newer request."""
        with self._lock:
            return self._newest.get(kind, number) == number


class Session:
    """Data sets and scans by number, and a temporary folder for uploads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: OrderedDict[str, DataSet] = OrderedDict()
        self._simulated: OrderedDict[str, list[str]] = OrderedDict()
        self._scans: OrderedDict[str, ScanJob] = OrderedDict()
        # Initial data set of every page, which is never dropped.
        self.first_number = ""
        place = Path(tempfile.gettempdir())
        # Removes folders of killed sessions.
        sweep(place)
        self.folder = temporary_path(place / "explore")
        self.folder.mkdir(mode=0o700)

    def close(self) -> None:
        """Stop the scans, and remove uploads."""
        for job in list(self._scans.values()):
            job.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_folder(self) -> Path:
        """Make an empty folder for one upload."""
        folder = self.folder / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return folder

    def keep(self, data: DataSet, page: str = "") -> str:
        """Keep a data set, simulated by `page` if given, and return its number."""
        number = secrets.token_hex(6)
        with self._lock:
            self._data[number] = data
            if page:
                own = self._simulated.setdefault(page, [])
                own.append(number)
                self._simulated.move_to_end(page)
                while len(own) > _MAX_SIMULATED:
                    self._drop(own.pop(0))
            while len(self._data) > _MAX_DATA:
                self._drop(next(name for name in self._data if name != self.first_number))
            while len(self._simulated) > _MAX_DATA:
                self._simulated.popitem(last=False)
        return number

    @property
    def first(self) -> tuple[str, DataSet] | None:
        """Number of the initial data set of every page, and the data set."""
        with self._lock:
            found = self._data.get(self.first_number)
        return None if found is None else (self.first_number, found)

    def data(self, number: Any) -> DataSet:
        """Return a data set by its number."""
        with self._lock:
            found = self._data.get(str(number))
            if found is not None:
                self._data.move_to_end(str(number))
        if found is None:
            raise DriftbayesError("these data have expired; drop the file again, or simulate again")
        return found

    def keep_scan(self, job: ScanJob) -> str:
        """Keep a scan and return its number; stop and drop the oldest if there are too many."""
        number = secrets.token_hex(6)
        with self._lock:
            self._scans[number] = job
            while len(self._scans) > _MAX_SCANS:
                self._scans.popitem(last=False)[1].cancel()
        return number

    def scan(self, number: Any) -> ScanJob:
        """Return a scan by its number."""
        with self._lock:
            found = self._scans.get(str(number))
        if found is None:
            raise DriftbayesError("this scan has expired; start it again")
        return found

    def _drop(self, number: str) -> None:
        """Drop a data set, and remove its upload unless another data set uses it."""
        old = self._data.pop(number, None)
        if old is None or old.path is None or self.folder not in old.path.parents:
            return
        if not any(other.path == old.path for other in self._data.values()):
            shutil.rmtree(old.path.parent, ignore_errors=True)

"""State of the server: data sets, scans, uploaded files, and the newest request of each kind."""

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

# The oldest are dropped first.
_MAX_DATA, _MAX_SCANS = 12, 6
# Every move of a slider makes new data: of one page only the last few are kept, so that they do not
# displace the files of another. Not only the last, which a late comparison may still need.
_MAX_SIMULATED = 3
# Closed pages leave their numbers behind.
_MAX_KINDS = 1000


class LatestOnly:
    """Numbers of requests, so that one overtaken by a newer one of its kind is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def enter(self, kind: str) -> int:
        """Return the number of a new request, which is now the newest."""
        with self._lock:
            number = self._newest.pop(kind, 0) + 1
            # Put last, so that the kinds not used for longest go first.
            self._newest[kind] = number
            while len(self._newest) > _MAX_KINDS:
                del self._newest[next(iter(self._newest))]
            return number

    def is_newest(self, kind: str, number: int) -> bool:
        """Return whether no newer request has come."""
        with self._lock:
            return self._newest.get(kind, number) == number


class Session:
    """Data sets and scans by number; uploads in a folder that is removed at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: OrderedDict[str, DataSet] = OrderedDict()
        self._simulated: OrderedDict[str, list[str]] = OrderedDict()
        self._scans: OrderedDict[str, ScanJob] = OrderedDict()
        # The data set that every page begins with, which is kept to the end.
        self.first_number = ""
        place = Path(tempfile.gettempdir())
        # Of sessions that were killed.
        sweep(place)
        self.folder = temporary_path(place / "explore")
        self.folder.mkdir(mode=0o700)

    def close(self) -> None:
        """Stop the scans, and remove everything that was uploaded."""
        for job in list(self._scans.values()):
            job.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_folder(self) -> Path:
        """Make an empty folder for one upload."""
        folder = self.folder / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return folder

    def keep(self, data: DataSet, page: str = "") -> str:
        """Keep a data set, which a slider of `page` may have made; return its number."""
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
        """The data set that every page begins with, and its number."""
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
            msg = "these data are no longer kept; drop the file again, or simulate again"
            raise DriftbayesError(msg)
        return found

    def keep_scan(self, job: ScanJob) -> str:
        """Keep a scan and return its number; the oldest of too many is stopped and dropped."""
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
            raise DriftbayesError("this scan is no longer kept; start it again")
        return found

    def _drop(self, number: str) -> None:
        """Forget a data set, and remove its upload unless another was read from it."""
        old = self._data.pop(number, None)
        if old is None or old.path is None or self.folder not in old.path.parents:
            return
        if not any(other.path == old.path for other in self._data.values()):
            shutil.rmtree(old.path.parent, ignore_errors=True)

"""What the page can ask for; every answer is plain numbers and text."""

__all__ = ["Explorer"]

import io
import shutil
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.explore import simulate as simulation
from driftbayes.explore import tasks
from driftbayes.explore.card import card
from driftbayes.explore.compute import Abandoned, ComputeProcess
from driftbayes.explore.dataset import DataSet, Read, read_plainly
from driftbayes.explore.judge import Question
from driftbayes.explore.latest import LatestOnly
from driftbayes.explore.scans import ScanJob
from driftbayes.explore.shelf import Shelf
from driftbayes.explore.uploads import check_size, receive
from driftbayes.magnitudes import checked

# Whether the page that asks is still there.
Present = Callable[[], bool]


class Explorer:
    """Data sets, comparisons and scans of one session.

    Args:
        max_upload: Largest body of a request with files, in bytes.
        read: How files are read.
        prepare: Called in the process that computes, before anything else.
    """

    def __init__(
        self,
        *,
        max_upload: int = 200 * 10**6,
        read: Read = read_plainly,
        prepare: Callable[[], None] = tasks.prepare,
    ) -> None:
        self.max_upload = max_upload
        self.compute = ComputeProcess(prepare)
        self._read = read
        # Warnings are caught while a file is read, which only one thread may do at a time.
        self._reading = threading.Lock()
        self.shelf = Shelf()
        self._latest = LatestOnly()

    @property
    def is_busy(self) -> bool:
        """Whether a file is being read or something computed."""
        return self.compute.is_busy or self._reading.locked()

    def close(self) -> None:
        """Stop all computations, and remove everything that was uploaded."""
        self.compute.close()
        self.shelf.close()

    def open_file(self, path: Path, options: str = "", name: str | None = None) -> dict[str, Any]:
        """Read a file of the user's own, which the page then begins with.

        Args:
            path: The file.
            options: Of reading, as the command line has them.
            name: As commands are to name it.
        """
        answer = self._open(path, options, name or str(path))
        self.shelf.begin_with(answer["data"])
        return answer

    def warm_up(self) -> None:
        """Compile in the background what the first question will most likely need."""

        def run() -> None:
            with suppress(Abandoned, DriftbayesError):
                self.compute.call(tasks.warm_up, when_idle=True)

        threading.Thread(target=run, name="warm-up", daemon=True).start()

    def start(self) -> dict[str, Any]:
        """What the page needs to build itself."""
        from driftbayes.io import FORMATS
        from driftbayes.models import MODELS, OPTIONS

        first = self.shelf.first
        return {
            "version": __version__,
            "max_upload": self.max_upload,
            "formats": [{"name": one.name, "summary": one.summary} for one in FORMATS],
            "models": [{"name": n, "summary": m.summary} for n, m in MODELS.items()],
            "options": OPTIONS,
            "sliders": simulation.sliders(),
            "choices": simulation.CHOICES,
            "begin": simulation.START,
            "first": None if first is None else card(*first),
        }

    def upload(self, stream: io.BufferedIOBase, length: int, options: str) -> dict[str, Any]:
        """Keep what the page sends, and read it.

        Args:
            stream: The body of the request.
            length: Its length.
            options: Of reading.
        """
        check_size(length, self.max_upload)
        folder = self.shelf.new_folder()
        try:
            path = receive(stream, length, folder)
            return self._open(path, options, path.name)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def reread(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        """The same file, with other options of reading.

        Args:
            wish: `data` and `options`.
        """
        data = self.shelf.data(wish.get("data"))
        if data.path is None:
            msg = "these data were simulated, and not read from a file; drop a file first"
            raise DriftbayesError(msg)
        return self._open(data.path, str(wish.get("options", "")), data.name)

    def simulate(self, wish: Mapping[str, Any], is_there: Present = lambda: True) -> dict[str, Any]:
        """Trajectories from a model; see `driftbayes.explore.simulate`."""
        is_wanted = self._newest("simulate", wish, is_there)
        made = DataSet.unpacked(self.compute.call(tasks.simulate, dict(wish), is_wanted=is_wanted))
        return card(self.shelf.keep(made, str(wish.get("page") or "nobody")), made)

    def compare(self, wish: Mapping[str, Any], is_there: Present = lambda: True) -> dict[str, Any]:
        """The verdict at one sampling time.

        Args:
            wish: `data`, `models`, `u_rms`, `timescale` and `tau`, the place of the sampling time.
            is_there: Whether the page still waits for it.
        """
        data, question = self.shelf.data(wish.get("data")), _question(wish)
        place = wish.get("tau", 0)
        if data.taus and (not isinstance(place, int) or not 0 <= place < len(data.taus)):
            msg = f"tau must be the place of a sampling time, 0 to {len(data.taus) - 1}"
            raise DriftbayesError(msg)
        tau = data.taus[place] if data.taus else None
        is_wanted = self._newest("compare", wish, is_there)
        found = self.compute.call(tasks.compare, question, tau, data=data, is_wanted=is_wanted)
        return {**found, "place": place if data.taus else None, "data": wish.get("data")}

    def scan(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a scan over all sampling times that suit the data.

        Args:
            wish: `data`, `models`, `u_rms`, `timescale`.
        """
        job = ScanJob(self.shelf.data(wish.get("data")), _question(wish), self.compute)
        number = self.shelf.keep_scan(job)
        job.start()
        return {"scan": number, **job.shown()}

    def scan_state(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        """How far a scan is.

        Args:
            wish: `scan`, and `have`, the sampling times that the page shows already.
        """
        have = wish.get("have", -1)
        return self.shelf.scan(wish.get("scan")).shown(have if isinstance(have, int) else -1)

    def cancel(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a scan; what is done stays.

        Args:
            wish: `scan`.
        """
        job = self.shelf.scan(wish.get("scan"))
        job.cancel()
        return job.shown()

    def download(self, wish: Mapping[str, Any]) -> tuple[bytes, str]:
        """A file made of a scan, and its media type.

        Args:
            wish: `scan`, and `file`, "report.html" or "scan.nc".
        """
        from driftbayes.io import write_scan
        from driftbayes.report import build_report

        dataset = self.shelf.scan(wish.get("scan")).dataset()
        if wish.get("file") == "report.html":
            return build_report(dataset).html.encode(), "text/html; charset=utf-8"
        if wish.get("file") != "scan.nc":
            msg = f"expected report.html or scan.nc, got {wish.get('file')!r}"
            raise DriftbayesError(msg)
        path = self.shelf.new_file(".nc")
        try:
            write_scan(dataset, path)
            return path.read_bytes(), "application/x-netcdf"
        finally:
            path.unlink(missing_ok=True)

    @property
    def asks(self) -> dict[str, Callable[[Mapping[str, Any], Present], dict[str, Any]]]:
        """What can be asked with a JSON body and whether the page is still there, by name."""
        return {
            "start": lambda wish, _: self.start(),
            "reread": lambda wish, _: self.reread(wish),
            "simulate": self.simulate,
            "compare": self.compare,
            "scan": lambda wish, _: self.scan(wish),
            "scan-state": lambda wish, _: self.scan_state(wish),
            "cancel": lambda wish, _: self.cancel(wish),
        }

    def _open(self, path: Path, options: str, name: str) -> dict[str, Any]:
        with self._reading, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", DriftbayesWarning)
            reading = self._read(path, options)
            data = DataSet(reading, name, path=path)
            answer = card(self.shelf.keep(data), data)
        notes = [str(w.message) for w in said if issubclass(w.category, DriftbayesWarning)]
        return {**answer, "notes": [*answer["notes"], *notes]}

    def _newest(self, kind: str, wish: Mapping[str, Any], is_there: Present) -> Present:
        """Whether a page waits for this request, and has not sent a newer one of its kind."""
        lane = f"{wish.get('page', '')}/{kind}"
        number = self._latest.enter(lane)
        return lambda: self._latest.is_newest(lane, number) and is_there()


def _question(wish: Mapping[str, Any]) -> Question:
    models = wish.get("models")
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        msg = f"models must be a list of names, got {models!r}"
        raise DriftbayesError(msg)
    numbers = {}
    for name in ("u_rms", "timescale"):
        value = wish.get(name)
        numbers[name] = None if value is None else checked(value, name)
    return Question(tuple(models), **numbers)

"""Requests of the page, answered in plain numbers and text."""

import io
import secrets
import shutil
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from driftbayes._magnitudes import checked
from driftbayes._representation import render
from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.explore import compute
from driftbayes.explore.answers import CompareRequest, data_card
from driftbayes.explore.dataset import CHOICES, START, DataSet, Read, read_file, sliders
from driftbayes.explore.scans import ScanJob
from driftbayes.explore.session import LatestOnly, Session
from driftbayes.explore.uploads import check_size, receive

# Returns whether the page still waits for the answer.
IsConnected = Callable[[], bool]


class Explorer:
    """Data sets, comparisons and scans of one session.

    Args:
        max_upload: Largest body of a request with files, in bytes.
        read: Function that reads a file.
        prepare: Called first in the compute process.
    """

    def __init__(
        self,
        *,
        max_upload: int = 200 * 10**6,
        read: Read = read_file,
        prepare: Callable[[], None] = compute.prepare,
    ) -> None:
        self.max_upload = max_upload
        self.compute = compute.ComputeProcess(prepare)
        self._read = read
        # Only one thread at a time may catch the warnings of reading a file.
        self._reading = threading.Lock()
        self.session = Session()
        self._latest = LatestOnly()

    @property
    def is_busy(self) -> bool:
        """Whether a file is being read or something computed."""
        return self.compute.is_busy or self._reading.locked()

    def close(self) -> None:
        """Stop all computations, and remove uploads."""
        self.compute.close()
        self.session.close()

    def open_file(self, path: Path, options: str = "") -> dict[str, Any]:
        """Read the initial file of every page.

        Args:
            path: The file.
            options: Reading options of the command line.
        """
        answer = self._open(path, options, str(path))
        self.session.first_number = answer["data"]
        return answer

    def warm_up(self) -> None:
        """Compile the programs of a typical first request in the background."""

        def run() -> None:
            with suppress(compute.Abandoned, DriftbayesError):
                self.compute.call(compute.warm_up, when_idle=True)

        threading.Thread(target=run, name="warm-up", daemon=True).start()

    def page(self) -> str:
        """Return the HTML of the page."""
        from driftbayes.io import FORMATS
        from driftbayes.models import MODELS, OPTIONS

        models = {name: model.summary for name, model in MODELS.items()}
        formats = {fmt.name: fmt.summary for fmt in FORMATS}
        tables = {"models": models, "formats": formats, "options": OPTIONS}
        return render("driftbayes.explore", "page.html", version=__version__, **tables)

    def start(self) -> dict[str, Any]:
        """Return the initial state of the page."""
        first = self.session.first
        return {
            "max_upload": self.max_upload,
            "sliders": sliders(),
            "choices": CHOICES,
            "begin": START,
            "first": None if first is None else data_card(*first),
        }

    def upload(self, stream: io.BufferedIOBase, length: int, options: str) -> dict[str, Any]:
        """Store an upload, and read it.

        Args:
            stream: Body of the request.
            length: Length of the body.
            options: Reading options.
        """
        check_size(length, self.max_upload)
        folder = self.session.new_folder()
        try:
            path = receive(stream, length, folder)
            return self._open(path, options, path.name)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def reread(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Read the file of `data` again with other `options`."""
        data = self.session.data(request.get("data"))
        if data.path is None:
            raise DriftbayesError("these data are simulated; drop a file first")
        return self._open(data.path, str(request.get("options", "")), data.name)

    def simulate(
        self, request: Mapping[str, Any], is_connected: IsConnected = lambda: True
    ) -> dict[str, Any]:
        """Simulate trajectories; see `driftbayes.explore.dataset.simulate`."""
        is_wanted = self._newest("simulate", request, is_connected)
        made = self.compute.call(compute.simulate_data, dict(request), is_wanted=is_wanted)
        data = DataSet(*made)
        return data_card(self.session.keep(data, str(request.get("page") or "nobody")), data)

    def compare(
        self, request: Mapping[str, Any], is_connected: IsConnected = lambda: True
    ) -> dict[str, Any]:
        """Compare models at one sampling time.

        Args:
            request: `data`, `models`, `u_rms`, `timescale` and `tau`, index of a sampling time.
            is_connected: Whether the page still waits for the answer.
        """
        data, models = self.session.data(request.get("data")), _compare_request(request)
        place = request.get("tau", 0)
        if data.taus and (not isinstance(place, int) or not 0 <= place < len(data.taus)):
            last = len(data.taus) - 1
            msg = f"tau must be the index of a sampling time, 0 to {last}, got {place!r}"
            raise DriftbayesError(msg)
        tau = data.taus[place] if data.taus else None
        is_wanted = self._newest("compare", request, is_connected)
        found = self.compute.call(compute.compare, models, tau, data=data, is_wanted=is_wanted)
        return {**found, "place": place if data.taus else None, "data": request.get("data")}

    def scan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Start a scan of `data` with `models`, `u_rms` and `timescale`."""
        data = self.session.data(request.get("data"))
        job = ScanJob(data, _compare_request(request), self.compute)
        number = self.session.keep_scan(job)
        job.start()
        return {"scan": number, **job.answer()}

    def scan_state(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the progress of `scan`; the page already shows `have` sampling times."""
        have = request.get("have", -1)
        return self.session.scan(request.get("scan")).answer(have if isinstance(have, int) else -1)

    def cancel(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a `scan`, but keep completed sampling times."""
        job = self.session.scan(request.get("scan"))
        job.cancel()
        return job.answer()

    def download(self, request: Mapping[str, Any]) -> tuple[bytes, str]:
        """Return the `file` of a `scan`, "report.html" or "scan.nc", and its media type."""
        from driftbayes.io import write_scan
        from driftbayes.report import build_report

        scan = self.session.scan(request.get("scan")).scan()
        if request.get("file") == "report.html":
            return build_report(scan).html.encode(), "text/html; charset=utf-8"
        if request.get("file") != "scan.nc":
            raise DriftbayesError(f"expected report.html or scan.nc, got {request.get('file')!r}")
        path = self.session.folder / f"{secrets.token_hex(8)}.nc"
        try:
            write_scan(scan.to_dataset(), path)
            return path.read_bytes(), "application/x-netcdf"
        finally:
            path.unlink(missing_ok=True)

    @property
    def routes(self) -> dict[str, Callable[[Mapping[str, Any], IsConnected], dict[str, Any]]]:
        """Functions that answer a JSON request, by name."""
        return {
            "start": lambda request, _: self.start(),
            "reread": lambda request, _: self.reread(request),
            "simulate": self.simulate,
            "compare": self.compare,
            "scan": lambda request, _: self.scan(request),
            "scan-state": lambda request, _: self.scan_state(request),
            "cancel": lambda request, _: self.cancel(request),
        }

    def _open(self, path: Path, options: str, name: str) -> dict[str, Any]:
        with self._reading, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DriftbayesWarning)
            data = DataSet(self._read(path, options), name, path=path)
            answer = data_card(self.session.keep(data), data)
        notes = [str(w.message) for w in caught if issubclass(w.category, DriftbayesWarning)]
        return {**answer, "notes": [*answer["notes"], *notes]}

    def _newest(
        self, kind: str, request: Mapping[str, Any], is_connected: IsConnected
    ) -> IsConnected:
        """Return a test whether the page still waits for this request and sent no newer one."""
        name = f"{request.get('page', '')}/{kind}"
        number = self._latest.enter(name)
        return lambda: self._latest.is_newest(name, number) and is_connected()


def _compare_request(request: Mapping[str, Any]) -> CompareRequest:
    models = request.get("models")
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        raise DriftbayesError(f"models must be a list of names, got {models!r}")
    scales = {
        name: None if request.get(name) is None else checked(request[name], name)
        for name in ("u_rms", "timescale")
    }
    return CompareRequest(tuple(models), **scales)

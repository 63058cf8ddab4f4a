"""The server: Python's own, for one person on one machine."""

__all__ = ["Server", "serve"]

import json
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from socketserver import TCPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from driftbayes.errors import DriftbayesError
from driftbayes.explore.api import Explorer, Stale
from driftbayes.explore.guard import CONTENT_POLICY, Guard

# Files of the page: where they lie, and what they are. Nothing else is served.
_FILES = {
    "/": ("explore", "page.html", "text/html"),
    "/explore.css": ("explore", "explore.css", "text/css"),
    "/report.css": ("report", "report.css", "text/css"),
    **{
        f"/{name}.js": ("explore", f"{name}.js", "text/javascript")
        for name in ("main", "ask", "build", "data", "simulate", "compare", "scan")
    },
}
_INTERNAL = "internal error; what happened is in the terminal"
# A question is a few numbers; only files are large.
_LONGEST_QUESTION = 10**6


class Server(ThreadingHTTPServer):
    """The page and its answers.

    Args:
        explorer: What can be asked.
        host: To bind to.
        port: To bind to; 0 takes a free one.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, explorer: Explorer, host: str = "127.0.0.1", port: int = 0) -> None:
        self.explorer = explorer
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            msg = (
                f"cannot listen at {host}, port {port}: {reason}; choose another with --port, or "
                "leave it out for a free one"
            )
            raise DriftbayesError(msg) from error
        self.guard = Guard(host, self.server_address[1])

    def server_bind(self) -> None:
        """Bind, and do not ask the network for this machine's name, as Python's own would."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def url(self) -> str:
        """The address, with the secret where no server sees it."""
        own = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
        host = own.get(self.guard.host, self.guard.host)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.guard.port}/#{self.guard.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error; anything else is told, and the server goes on."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            traceback.print_exc(file=sys.stderr)


def serve(
    explorer: Explorer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_ready: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted; uploads are gone when it ends, however it ends.

    Args:
        explorer: What can be asked.
        host: To bind to.
        port: To bind to; 0 takes a free one.
        on_ready: Called with the address.
    """
    try:
        with Server(explorer, host, port) as server:
            # In a thread, so that an interruption finds this one waiting, wherever the other is.
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                on_ready(server.url)
                # Bit by bit: not every system interrupts a long wait.
                while thread.is_alive():
                    thread.join(0.5)
            finally:
                server.shutdown()
    finally:
        explorer.close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "driftbayes"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        refusal = self.server.guard.refusal(self.headers, needs_token=False)
        if refusal is not None:
            self._refuse(HTTPStatus.FORBIDDEN, refusal)
        elif path not in _FILES:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing at {path}")
        else:
            room, name, kind = _FILES[path]
            found = resources.files(f"driftbayes.{room}").joinpath("static", name)
            self._send(HTTPStatus.OK, found.read_bytes(), f"{kind}; charset=utf-8")

    def do_POST(self) -> None:
        guard, explorer = self.server.guard, self.server.explorer
        path = urlsplit(self.path).path
        refusal = guard.refusal(self.headers, needs_token=True)
        if refusal is not None:
            self._refuse(HTTPStatus.FORBIDDEN, refusal)
            return
        length = self._length()
        if length is None:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the length of the request must be given")
            return
        most = explorer.max_upload if path == "/api/upload" else _LONGEST_QUESTION
        if length > most:
            # Before any of it is read.
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._too_large(length))
            return
        self._answer(path.removeprefix("/api/"), length)

    def _too_large(self, length: int) -> str:
        from driftbayes.explore.uploads import check_size

        try:
            check_size(length, self.server.explorer.max_upload)
        except DriftbayesError as error:
            return str(error)
        return "the question is too long; ask for less"

    def _answer(self, what: str, length: int) -> None:
        explorer = self.server.explorer
        answer: dict[str, Any]
        status = HTTPStatus.OK
        try:
            if what == "upload":
                options = unquote(self.headers.get("X-Driftbayes-Options", ""))
                # What is left unread when something is wrong would be taken for a request.
                self.close_connection = True
                answer = explorer.upload(self.rfile, length, options)
            else:
                wish = _parsed(self.rfile.read(length))
                if what == "download":
                    self._send(HTTPStatus.OK, *explorer.download(wish))
                    return
                if what not in explorer.asks:
                    self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing at /api/{what}")
                    return
                answer = explorer.asks[what](wish)
        except Stale:
            answer = {"stale": True}
        except DriftbayesError as error:
            answer = {"error": str(error)}
        except ConnectionError:
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            answer, status = {"error": _INTERNAL}, HTTPStatus.INTERNAL_SERVER_ERROR
        self._send_json(status, answer)

    def _length(self) -> int | None:
        text = self.headers.get("Content-Length", "")
        known = text.isascii() and text.isdigit() and "Transfer-Encoding" not in self.headers
        return int(text) if known else None

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        # The body, if there is one, was not read.
        self.close_connection = True
        self._send_json(status, {"error": sentence})

    def _send_json(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer, allow_nan=False).encode()
        self._send(status, body, "application/json; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CONTENT_POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person reads the terminal."""


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}", parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        msg = "expected a question as a JSON object"
        raise DriftbayesError(msg)
    return found

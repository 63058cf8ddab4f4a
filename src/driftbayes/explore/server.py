"""The server: Python's own, for one person on one machine."""

__all__ = ["Server", "serve"]

import io
import json
import select
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from socketserver import TCPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from driftbayes.errors import DriftbayesError
from driftbayes.explore.api import Explorer
from driftbayes.explore.compute import Abandoned
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
# A page uses six connections at the most; each takes a thread.
MAX_CONNECTIONS = 48
# Seconds for a connection to say something, for the head of a request once it has begun, and for
# its body, with what each byte of it adds: a client that is slower holds a thread for nothing.
_IDLE, _HEAD, _BODY, _BODY_PER_BYTE = 60.0, 10.0, 20.0, 4e-6


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
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
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

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or refuse it when there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            _refuse_connection(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

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


class _Line(io.RawIOBase):
    """What comes in on a connection, not later than by a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0
        self._then: float | None = None

    def allow(self, seconds: float, then: float | None = None) -> None:
        """Set the deadline.

        Args:
            seconds: From now.
            then: From the first byte on, if that changes it.
        """
        self._deadline, self._then = time.monotonic() + seconds, then

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        n = self._connection.recv_into(buffer)
        if self._then is not None:
            self.allow(self._then)
        return n


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "driftbayes"
    sys_version = ""
    # Of an answer as a whole.
    timeout = 60

    def setup(self) -> None:
        super().setup()
        self._line = _Line(self.connection)
        self.rfile = io.BufferedReader(self._line)

    def handle_one_request(self) -> None:
        self._line.allow(_IDLE, then=_HEAD)
        super().handle_one_request()

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
        self._line.allow(_BODY + _BODY_PER_BYTE * length)
        self._answer(path.removeprefix("/api/"), length)

    def _is_there(self) -> bool:
        """Whether the page has not hung up."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return True
            # Something to read: the next request, or the end.
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

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
                answer = explorer.asks[what](wish, self._is_there)
        except Abandoned:
            answer = {"stale": True}
        except DriftbayesError as error:
            answer = {"error": str(error)}
        except (ConnectionError, TimeoutError):
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
        self.connection.settimeout(self.timeout)
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


def _refuse_connection(request: socket.socket) -> None:
    """Say that there are too many, without waiting for the request."""
    sentence = f"more than {MAX_CONNECTIONS} connections at a time; close other pages and try again"
    body = json.dumps({"error": sentence}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"
    )
    request.settimeout(1.0)
    with suppress(OSError):
        request.sendall(head.encode() + body)
        # What the client has sent is read: a connection closed before that is reset, and the
        # answer lost.
        request.shutdown(socket.SHUT_WR)
        request.settimeout(0.05)
        request.recv(1 << 16)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}", parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        msg = "expected a question as a JSON object"
        raise DriftbayesError(msg)
    return found

"""Local web server of the page."""

import io
import ipaddress
import json
import secrets
import select
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from socketserver import TCPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from driftbayes.errors import DriftbayesError
from driftbayes.explore.api import Explorer
from driftbayes.explore.compute import Abandoned
from driftbayes.explore.uploads import check_size

# Package, name and media type of each file of the page. Nothing else is served.
_FILES = {
    "/explore.css": ("explore", "explore.css", "text/css"),
    "/report.css": ("report", "report.css", "text/css"),
    **{
        f"/{name}.js": ("explore", f"{name}.js", "text/javascript")
        for name in ("main", "ask", "build", "data", "simulate", "compare", "scan")
    },
}
# A request is a few numbers; only uploads are large.
_MAX_REQUEST = 10**6
# A page uses at most six connections, each of which takes a thread.
MAX_CONNECTIONS = 48
# Time limits in seconds for a client to begin a request, to send its head, and to send its body,
# with an allowance per byte.
_IDLE, _HEAD, _BODY, _BODY_PER_BYTE = 60.0, 10.0, 20.0, 4e-6
# Scripts and data from this server only; drawings may contain styles.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OWN = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Guard:
    """Check that a request comes from the page of this session.

    Args:
        host: Address that the server is bound to.
        port: Port of the server.
        token: Secret of the session, part of the address in the terminal only.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def refusal(self, headers: Message, *, needs_token: bool) -> str | None:
        """Return the reason to refuse a request, or None to accept it.

        Args:
            headers: Headers of the request.
            needs_token: Whether it must have the token.
        """
        # Prevents DNS rebinding, by which a foreign page could read the answers.
        hosts = headers.get_all("Host", [])
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return "unknown host name; open the address shown in the terminal"
        origin = headers.get("Origin")
        if origin is not None and not self._is_own_origin(origin):
            return "this server answers only its own page"
        # The page itself contains no secret, and may be opened from a link in another program.
        if needs_token and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "this server answers only its own page"
        given = headers.get("X-Driftbayes-Token", "")
        # As bytes, since text that is not ASCII cannot be compared in constant time.
        if needs_token and not secrets.compare_digest(given.encode(), self.token.encode()):
            return "the token of this session is missing; open the address shown in the terminal"
        return None

    def _is_own(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if parts.netloc != host or parts.username is not None or port != self.port:
            return False
        if name in _OWN or name == self.host.lower():
            return True
        # Bound to all addresses, the server has any IP address; only names can be forged.
        return self.host in ("0.0.0.0", "::") and _is_address(name)

    def _is_own_origin(self, origin: str) -> bool:
        scheme, _, rest = origin.partition("://")
        return scheme == "http" and self._is_own(rest)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Server(ThreadingHTTPServer):
    """Server of the page and of the answers to its requests.

    Args:
        explorer: Object that answers requests.
        host: Address to bind to.
        port: Port to bind to; 0 for a free one.
    """

    daemon_threads = True
    block_on_close = False
    # With the default of five, further clients would wait seconds before they try again.
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, explorer: Explorer, host: str = "127.0.0.1", port: int = 0) -> None:
        self.explorer = explorer
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DriftbayesError(
                f"cannot listen at {host}, port {port}: {reason}; choose another with --port, or "
                "omit it for a free one"
            ) from error
        self.guard = Guard(host, self.server_address[1])

    def server_bind(self) -> None:
        """Bind without looking up the host name, unlike the base class."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or refuse it if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            _refuse_connection(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, then release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @property
    def url(self) -> str:
        """Address of the page, with the token in the fragment, which is not sent to servers."""
        own = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
        host = own.get(self.guard.host, self.guard.host)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.guard.port}/#{self.guard.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless the browser disconnected, and continue."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            traceback.print_exc(file=sys.stderr)


def serve(
    explorer: Explorer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_ready: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted, then remove uploads.

    Args:
        explorer: Object that answers requests.
        host: Address to bind to.
        port: Port to bind to; 0 for a free one.
        on_ready: Called with the address of the page.
    """
    try:
        with Server(explorer, host, port) as server:
            # In a thread, so that this one can be interrupted.
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                on_ready(server.url)
                # Not every system interrupts a long wait.
                while thread.is_alive():
                    thread.join(0.5)
            finally:
                server.shutdown()
    finally:
        explorer.close()


class _DeadlineReader(io.RawIOBase):
    """Reader of a connection with a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0
        self._then: float | None = None

    def allow(self, seconds: float, then: float | None = None) -> None:
        """Set the deadline to `seconds` from now, or `then` seconds after the first byte."""
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
    # Seconds for a whole answer.
    timeout = 60

    def setup(self) -> None:
        super().setup()
        self._reader = _DeadlineReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self._reader.allow(_IDLE, then=_HEAD)
        super().handle_one_request()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        refusal = self.server.guard.refusal(self.headers, needs_token=False)
        if refusal is not None:
            self._refuse(HTTPStatus.FORBIDDEN, refusal)
        elif path == "/":
            page = self.server.explorer.page().encode()
            self._send(HTTPStatus.OK, page, "text/html; charset=utf-8")
        elif path not in _FILES:
            self._refuse(HTTPStatus.NOT_FOUND, f"not found: {path}")
        else:
            package, name, kind = _FILES[path]
            found = resources.files(f"driftbayes.{package}").joinpath("static", name)
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
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the length of the request is missing")
            return
        if length > (explorer.max_upload if path == "/api/upload" else _MAX_REQUEST):
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._too_large(length))
            return
        self._reader.allow(_BODY + _BODY_PER_BYTE * length)
        self._answer(path.removeprefix("/api/"), length)

    def _is_connected(self) -> bool:
        """Return whether the page has not closed the connection."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return True
            # Readable: the next request, or the end of the connection.
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

    def _too_large(self, length: int) -> str:
        try:
            check_size(length, self.server.explorer.max_upload)
        except DriftbayesError as error:
            return str(error)
        return f"the request has {length:,} bytes, at most {_MAX_REQUEST:,} are allowed"

    def _answer(self, what: str, length: int) -> None:
        explorer = self.server.explorer
        answer: dict[str, Any]
        status = HTTPStatus.OK
        try:
            if what == "upload":
                options = unquote(self.headers.get("X-Driftbayes-Options", ""))
                # Bytes left unread after an error would be mistaken for a request.
                self.close_connection = True
                answer = explorer.upload(self.rfile, length, options)
            else:
                request = _parsed(self.rfile.read(length))
                if what == "download":
                    self._send(HTTPStatus.OK, *explorer.download(request))
                    return
                if what not in explorer.routes:
                    self._refuse(HTTPStatus.NOT_FOUND, f"not found: /api/{what}")
                    return
                answer = explorer.routes[what](request, self._is_connected)
        except Abandoned:
            answer = {"stale": True}
        except DriftbayesError as error:
            answer = {"error": str(error)}
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            answer = {"error": "internal error; see the terminal"}
        self._send_json(status, answer)

    def _length(self) -> int | None:
        text = self.headers.get("Content-Length", "")
        known = text.isascii() and text.isdigit() and "Transfer-Encoding" not in self.headers
        return int(text) if known else None

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        # The body, if any, was not read.
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
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _refuse_connection(request: socket.socket) -> None:
    """Refuse an excess connection, without waiting for its request."""
    sentence = f"more than {MAX_CONNECTIONS} connections; close other pages and try again"
    body = json.dumps({"error": sentence}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"
    )
    request.settimeout(1.0)
    with suppress(OSError):
        request.sendall(head.encode() + body)
        # Read the request first: closing with unread data resets the connection.
        request.shutdown(socket.SHUT_WR)
        request.settimeout(0.05)
        request.recv(1 << 16)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}", parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DriftbayesError("expected a request as a JSON object")
    return found

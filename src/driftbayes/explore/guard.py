"""Who may ask: this machine's own page with this session's token, and nobody else."""

__all__ = ["CONTENT_POLICY", "Guard"]

import ipaddress
import secrets
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import urlsplit

# Scripts and data from this server only, nothing from the network; styles may stand in a drawing.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_OWN = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Guard:
    """What a request must bring along.

    Args:
        host: What the server is bound to.
        port: Its port.
        token: Secret of the session, which only the address in the terminal has.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def refusal(self, headers: Message, *, needs_token: bool) -> str | None:
        """Why a request is refused, in a sentence; None if it is not.

        Args:
            headers: Of the request.
            needs_token: Whether it must know the secret.
        """
        # A foreign name that was made to point here would let a foreign page read our answers.
        hosts = headers.get_all("Host", [])
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return "this server answers only under the address that the terminal shows"
        origin = headers.get("Origin")
        if origin is not None and not self._is_own_origin(origin):
            return "this server answers only its own page, not one of another site"
        # The page itself holds no secret, and may be opened from a link in another program.
        if needs_token and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "this server answers only its own page, not one of another site"
        given = headers.get("X-Driftbayes-Token", "")
        # Bytes: text that is not ASCII cannot be compared in constant time.
        if needs_token and not secrets.compare_digest(given.encode(), self.token.encode()):
            return "the token of this session is missing; open the address that the terminal shows"
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
        # Bound to all addresses, it is reached by any number; only a name can be made to lie.
        return self.host in ("0.0.0.0", "::") and _is_number(name)

    def _is_own_origin(self, origin: str) -> bool:
        scheme, _, rest = origin.partition("://")
        return scheme == "http" and self._is_own(rest)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

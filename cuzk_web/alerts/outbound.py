"""A POST to an address that a person typed in, without becoming a way into the network that this process stands in.

The name is resolved here, every address is judged, and the connection goes to the address that was judged: a name that
answers otherwise a second time leads nowhere else. Redirects are answers like any other; proxies of the environment are
not used. Nothing that is raised or logged holds the address' path, its query or a token.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from prover.errors import CuzkError, InvalidInput

TIMEOUT_S: Final = 5.0  # of a connect, and of each read
WHOLE_S: Final = 15.0  # of all of it
MOST_URL: Final = 2000  # characters
MOST_READ: Final = 4096  # bytes of an answer: nobody looks at more

_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
Address = IPv4Address | IPv6Address


class ChannelInvalid(InvalidInput):
    """The address or token of a channel cannot be used."""

    code = "channel_invalid"


class AddressRefused(CuzkError):
    """The channel's host is in a private network, and CUZK_ALERT_NETWORKS does not allow it."""

    code = "address_refused"


class ChannelUnreachable(CuzkError):
    """The channel's host does not answer, or not in time."""

    code = "channel_unreachable"


class ChannelRefused(CuzkError):
    """The channel's host refused the message."""

    code = "channel_refused"


@dataclass(frozen=True, slots=True)
class Target:
    """A checked address: what is connected to (`pinned`), and by which name."""

    https: bool
    host: str
    port: int
    path: str
    pinned: str


def check(url: str) -> SplitResult:
    """The parts of an address. Raises ChannelInvalid, which does not repeat it."""
    if len(url) > MOST_URL or any(c <= " " or c == "\\" or c == "\x7f" for c in url) or not url.isascii():
        raise ChannelInvalid(f"not up to {MOST_URL} ASCII characters without blanks", field="url")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ChannelInvalid("not an address", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ChannelInvalid("not http:// or https:// with a host", field="url")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ChannelInvalid("neither a login nor a fragment belongs in it", field="url")
    return parts


def check_token(token: str) -> str:
    """A token that can stand in a header. Raises ChannelInvalid."""
    if len(token) > MOST_URL or not token.isascii() or any(not c.isprintable() or c == " " for c in token):
        raise ChannelInvalid(f"not up to {MOST_URL} printable ASCII characters without blanks", field="token")
    return token


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send it; returns when it was taken (any 2xx). Raises ChannelInvalid, AddressRefused, ChannelUnreachable,
    ChannelRefused."""
    target = resolve(check(url))
    connection = _Pinned(target)
    watchdog = threading.Timer(WHOLE_S, connection.cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request("POST", target.path, body, dict(headers))
        answer = connection.getresponse()
        answer.read(MOST_READ)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ChannelUnreachable(_words(error, connection.was_cut), field=target.host) from None
    finally:
        watchdog.cancel()
        connection.close()
    if not 200 <= answer.status < 300:
        raise ChannelRefused(f"it answered {answer.status}", field=target.host)


def resolve(parts: SplitResult) -> Target:
    """Where a message goes, judged. Raises AddressRefused when any address of the host may not be asked."""
    host, https = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if https else 80)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ChannelUnreachable("its name cannot be resolved", field=host) from None
    addresses = [str(address[0]) for *_, address in found]
    for address in addresses:
        if not allowed(address, settings.ALERT_NETWORKS):
            raise AddressRefused(field=host)
    path = parts.path or "/"
    return Target(https, host, port, f"{path}?{parts.query}" if parts.query else path, addresses[0])


def allowed(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a message may go to an IP address: one of the public internet, or of `networks`."""
    try:
        judged = _inner(ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    if any(judged in network for network in networks):
        return True
    return judged.is_global and not judged.is_multicast and not judged.is_reserved


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does: that is where it leads."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in prefix for prefix in _NAT64) or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address


class _Pinned(http.client.HTTPConnection):
    """A connection to the address that was judged; TLS is checked against the name."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.host, target.port, timeout=TIMEOUT_S)
        self._target = target
        self.was_cut = False

    def connect(self) -> None:
        """To the pinned address."""
        self.sock = socket.create_connection((self._target.pinned, self._target.port), TIMEOUT_S)
        if self._target.https:
            context = ssl.create_default_context()
            wrapped = context.wrap_socket(self.sock, False, False, server_hostname=self._target.host)
            self.sock = wrapped  # before the handshake, so that `cut` reaches it
            wrapped.do_handshake()

    def cut(self) -> None:
        """Who sends a byte now and then keeps nobody waiting."""
        self.was_cut = True
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _words(error: Exception, was_cut: bool) -> str:
    if was_cut or isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__  # what an HTTP error says may be what the other side sent

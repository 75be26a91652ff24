"""Where a server listens: `unix:///PATH`, or `HOST:PORT` as `127.0.0.1:9820` or `[::1]:9820`."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_PATH = 107  # bytes of a unix socket's name
_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class Address:
    """A unix socket when there is a `path`, else a host and a port of TCP."""

    path: Path | None = None
    host: str = ""
    port: int = 0

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.path is not None or is_loopback(self.host)

    def __str__(self) -> str:
        if self.path is not None:
            return f"{_UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or IP address is this machine's own."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def parse(text: str) -> Address:
    """One address. Raises ValueError."""
    if text.startswith("unix:"):
        return _unix(text)
    host, separator, port = text.rpartition(":")
    if not separator or not host:
        raise ValueError(f"{text!r} is neither unix:///PATH nor HOST:PORT")
    if not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r}: the port is no number from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address is written in brackets, as [::1]:9820")
    return Address(host=host, port=int(port))


def parse_all(text: str) -> tuple[Address, ...]:
    """Addresses with commas between them; none for an empty text. Raises ValueError."""
    return tuple(parse(part.strip()) for part in text.split(",") if part.strip())


def _unix(text: str) -> Address:
    path = text.removeprefix(_UNIX)
    if not path.startswith("/"):
        raise ValueError(f"{text!r}: a unix socket is written unix:///PATH, with an absolute path")
    if len(path.encode()) > MAX_PATH:
        raise ValueError(f"{text!r}: a unix socket's path has at most {MAX_PATH} bytes")
    return Address(path=Path(path))

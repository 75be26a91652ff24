"""One GET of a daemon's status: bounded in time and size, without redirects."""

from __future__ import annotations

import http.client
import socket
import threading
from typing import Final
from urllib.parse import urlsplit

from prover.errors import CuzkError

from .status import MOST_BYTES, Status, StatusInvalid, parse

TIMEOUT_S: Final = 5.0  # of a connect, and of each read
WHOLE_S: Final = 10.0


class DaemonUnreachable(CuzkError):
    """The watched daemon does not answer, or not with its status."""

    code = "daemon_unreachable"


class Daemon:
    """Where a daemon serves its status: http://host:port, with or without /status at its end."""

    def __init__(self, url: str) -> None:
        """Raises StatusInvalid when it is no such address."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or 80
        except ValueError:
            raise StatusInvalid("not an address such as http://127.0.0.1:9821", field="url") from None
        if parts.scheme != "http" or not parts.hostname or parts.username or parts.query or parts.fragment:
            raise StatusInvalid("not an address such as http://127.0.0.1:9821", field="url")
        self.host, self.port = parts.hostname, port
        self._path = parts.path.removesuffix("/") or "/status"

    def status(self) -> Status:
        """Raises DaemonUnreachable, StatusInvalid."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        watchdog = threading.Timer(WHOLE_S, _cut, [connection])
        watchdog.daemon = True
        watchdog.start()
        try:
            connection.request("GET", self._path, headers={"Accept": "application/json", "Connection": "close"})
            answer = connection.getresponse()
            body = answer.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DaemonUnreachable(f"{type(error).__name__}: {str(error)[:200]}") from None
        finally:
            watchdog.cancel()
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise DaemonUnreachable(f"it answers {answer.status}")
        return parse(body)


def _cut(connection: http.client.HTTPConnection) -> None:
    """Who sends a byte now and then keeps nobody waiting."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

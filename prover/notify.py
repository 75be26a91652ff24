"""What systemd is told of a service of Type=notify: that it is ready, that it lives, what it does, that it stops.

The protocol of sd_notify(3): lines in a datagram to the socket that NOTIFY_SOCKET names. Without the variable every
call does nothing.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping

_FEEDS = 4  # signs of life within the time that systemd waits for one


class Notifier:
    """One for a process. A datagram that cannot be sent is dropped: no service fails by its watchman."""

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        """Takes the variables out of the environment (default: the process's): what this process starts is not it."""
        environment = os.environ if environment is None else environment
        address = environment.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._interval = _watchdog_s(environment) / _FEEDS
        self._fed = float("-inf")
        self._status = ""

    def ready(self) -> None:
        """The service does its work from now on."""
        self._send("READY=1")

    def alive(self, status: str = "") -> None:
        """A turn of the loop that does the work; as often as you like. `status` is shown by `systemctl status`."""
        now = time.monotonic()
        if self._interval and now - self._fed >= self._interval:
            self._fed = now
            self._send("WATCHDOG=1")
        if status and status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def waiting(self, status: str, seconds: float) -> None:
        """Not ready yet, or not for the moment, and no failure: the next word comes within `seconds`."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")
        self.alive(status)

    def stopping(self, seconds: float) -> None:
        """The end begins, and may take that long."""
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(1)
                sender.sendto(text.encode(), self._address)
        except OSError:
            pass


def _watchdog_s(environment: MutableMapping[str, str]) -> float:
    """Seconds within which systemd wants a sign of life; 0: it does not watch, or watches another process."""
    microseconds, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return 0.0
    return int(microseconds) / 1e6

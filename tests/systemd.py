"""systemd's end of sd_notify: a socket that takes what services say."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_S = 60.0


class Systemd:
    """Hears one service."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))

    def environment(self, watchdog_s: float) -> dict[str, str]:
        """What the service gets."""
        return {"NOTIFY_SOCKET": str(self._path), "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}

    def expect(self, word: str, within_s: float = PATIENCE_S) -> list[str]:
        """The lines of the next datagram that has `word`."""
        deadline = time.monotonic() + within_s
        while True:
            lines = self._receive(deadline - time.monotonic())
            assert lines is not None, f"{word} did not come"
            if word in lines:
                return lines

    def quiet(self, seconds: float, settling_s: float = 1.0) -> bool:
        """Whether no sign of life comes for so long, once what is under way has come."""
        self._drain(time.monotonic() + settling_s)
        return "WATCHDOG=1" not in self._drain(time.monotonic() + seconds)

    def close(self) -> None:
        self._socket.close()

    def _drain(self, until: float) -> list[str]:
        found: list[str] = []
        while (lines := self._receive(until - time.monotonic())) is not None:
            found += lines
        return found

    def _receive(self, seconds: float) -> list[str] | None:
        if seconds <= 0:
            return None
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(4096).decode().splitlines()
        except TimeoutError:
            return None


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    """Its socket's path is short: a socket's must be."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cuzk-") as folder:
        os.chmod(folder, 0o700)
        heard = Systemd(Path(folder))
        yield heard
        heard.close()

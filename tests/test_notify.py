"""sd_notify: what is said, how often, and to whom."""

from __future__ import annotations

import os
import socket

import pytest

from prover import notify
from prover.notify import Notifier


@pytest.fixture
def heard() -> socket.socket:
    """An abstract socket, as systemd may use."""
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taken.bind(f"\0cuzk-test-{os.getpid()}")
    taken.setblocking(False)
    return taken


def spoken(heard: socket.socket) -> list[str]:
    said = []
    while True:
        try:
            said.append(heard.recv(4096).decode())
        except BlockingIOError:
            return said


def environment(heard: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": f"@{heard.getsockname()[1:].decode()}", **more}


def test_a_life(heard: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(notify.time, "monotonic", lambda: now)
    variables = environment(heard, WATCHDOG_USEC="8000000", WATCHDOG_PID=str(os.getpid()))
    notifier = Notifier(variables)
    assert variables == {}, "children are not the service"
    notifier.waiting("waiting for the database", 60)
    notifier.ready()
    for _ in range(10):
        now += 0.5
        notifier.alive("2 jobs")
    notifier.stopping(600)
    assert spoken(heard) == [
        "EXTEND_TIMEOUT_USEC=60000000", "WATCHDOG=1", "STATUS=waiting for the database", "READY=1", "STATUS=2 jobs",
        "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1\nEXTEND_TIMEOUT_USEC=600000000",
    ]  # fmt: skip
    heard.close()
    notifier.ready()  # nobody listens any more


@pytest.mark.parametrize("more", [{}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
def test_who_is_not_watched_gives_no_sign(heard: socket.socket, more: dict[str, str]) -> None:
    Notifier(environment(heard, **more)).alive()
    assert spoken(heard) == []
    heard.close()


def test_without_systemd_nothing_is_said() -> None:
    notifier = Notifier({})
    notifier.ready()
    notifier.alive("working")
    notifier.stopping(1)

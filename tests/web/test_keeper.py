"""The thread that keeps the history up to date: it catches up in pieces, outlives a database in trouble, and ends."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import OperationalError

from cuzk_web.history import checkpoints, keeper, rollups


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was asked for, by a keeper that is in a hurry; nothing of it reaches a database."""
    asked: list[tuple[str, Any]] = []
    monkeypatch.setattr(keeper, "FIRST_S", 0.0)
    monkeypatch.setattr(keeper, "EVERY_S", 0.01)
    monkeypatch.setattr(rollups, "roll_up", lambda every: asked.append(("sums", every)))
    monkeypatch.setattr(checkpoints, "extend", lambda most: asked.append(("checkpoints", most)) or 0)
    return asked


def await_calls(asked: list[tuple[str, Any]], count: int) -> None:
    until = time.monotonic() + 10
    while len(asked) < count and time.monotonic() < until:
        time.sleep(0.005)
    assert len(asked) >= count


def test_it_works_until_it_is_stopped(calls: list[tuple[str, Any]]) -> None:
    with keeper.keeping():
        await_calls(calls, 6)
    assert calls[:4] == [("sums", True), ("checkpoints", 5), ("sums", False), ("checkpoints", 5)]
    done = len(calls)
    time.sleep(0.05)
    assert len(calls) == done and "history keeper" not in {thread.name for thread in threading.enumerate()}


def test_a_long_past_is_caught_up_on_before_the_next_round(calls: list[tuple[str, Any]], monkeypatch: Any) -> None:
    left = [5, 5, 3, 0]
    monkeypatch.setattr(checkpoints, "extend", lambda most: calls.append(("checkpoints", left[0])) or left.pop(0))
    monkeypatch.setattr(keeper, "EVERY_S", 60.0)
    with keeper.keeping():
        await_calls(calls, 5)
    assert [count for what, count in calls if what == "checkpoints"] == [5, 5, 3, 0]


def test_a_database_in_trouble_is_asked_again(
    calls: list[tuple[str, Any]], monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(every: bool) -> None:
        calls.append(("sums", every))
        raise OperationalError("the server is away")

    monkeypatch.setattr(rollups, "roll_up", fail)
    with keeper.keeping():
        await_calls(calls, 2)
    assert "the history is not kept up to date: the server is away" in caplog.text

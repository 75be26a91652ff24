"""SIGTERM to a real prover: the first drains, a second aborts, and both ends are recorded."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from prover.commands.exits import Exit
from tests.postgres import Database

from .running import DATA, PATIENCE_S, Prover, Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]


def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


def on_the_device(prover: Prover, shared: Shared, database: Database, folder: Path) -> tuple[Path, str]:
    """A job of two partitions, of which one is on the device and stays there."""
    request = shared.sample("window-post", folder, "--sectors", 3)
    job = submit(shared, database, request)
    await_true(lambda: prover.reached("start-P0"))
    return request, job


def test_a_first_signal_drains(database: Database, window: Shared, tmp_path: Path) -> None:
    with proving(database, window, tmp_path / "p", gates=("start-P0",)) as prover:
        request, job = on_the_device(prover, window, database, tmp_path)
        prover.process.send_signal(signal.SIGTERM)
        await_true(lambda: "draining" in prover.log)
        later = submit(window, database, DATA / "2k/requests/window-post.json")
        assert rows(database, "SELECT state FROM session WHERE prover = 'alpha'") == [("online",)]
        prover.open("start-P0")
        assert prover.process.wait(PATIENCE_S) == Exit.OK, prover.log
    assert refused(window, request, delivered(database, job)) == []
    assert rows(database, f"SELECT state, session_id FROM job WHERE id = '{later}'") == [("queued", None)]
    assert rows(database, "SELECT state, reason FROM session WHERE prover = 'alpha'") == [("stopped", "stopped")]
    assert rows(database, "SELECT DISTINCT state, reason FROM worker") == [("stopped", "stopped")]
    assert "thread died" not in prover.log and "Traceback" not in prover.log


def test_a_second_signal_aborts_and_what_ran_is_proved_by_the_next(
    database: Database, window: Shared, tmp_path: Path
) -> None:
    with proving(database, window, tmp_path / "first", gates=("start-P0",)) as first:
        request, job = on_the_device(first, window, database, tmp_path)
        first.process.send_signal(signal.SIGTERM)
        await_true(lambda: "draining" in first.log)
        assert first.process.poll() is None
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(PATIENCE_S) == Exit.INTERRUPTED, first.log
    assert rows(database, "SELECT state, reason FROM session WHERE prover = 'alpha'") == [("stopped", "aborted")]
    assert rows(database, "SELECT DISTINCT state, reason FROM worker") == [("stopped", "aborted")]
    assert rows(database, "SELECT DISTINCT state, reason FROM device") == [("stopped", "aborted")]
    assert rows(database, f"SELECT state, reason, session_id, losses FROM job WHERE id = '{job}'") == [
        ("queued", "aborted", None, 0)
    ]
    attempts = dict(rows(database, "SELECT partition, state FROM attempt"))
    assert attempts[0] == "lost" and set(attempts.values()) <= {"lost", "done"}
    told = rows(database, "SELECT entity, new FROM transition WHERE reason = 'aborted'")
    assert {("session", "stopped"), ("job", "queued"), ("attempt", "lost")} <= set(told)
    assert "thread died" not in first.log and "Traceback" not in first.log
    with proving(database, window, tmp_path / "second"):
        await_true(lambda: rows(database, f"SELECT state FROM job WHERE id = '{job}'") == [("done",)])
    assert refused(window, request, delivered(database, job)) == []
    assert rows(database, "SELECT count(*) FROM anomaly") == [(0,)]

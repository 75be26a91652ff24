"""The prover's process, against real Postgres: start, a job that fails, signals, and what stops the start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from prover import config
from prover.commands.exits import Exit
from tests.journal.helpers import submit_one
from tests.postgres import Database
from tests.systemd import Systemd, systemd  # noqa: F401 - a fixture

pytestmark = pytest.mark.postgres
PATIENCE_S = 90


@contextmanager
def daemon(
    database: Database, folder: Path, *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:  # fmt: skip
    """The process, its log in `folder`; killed when the test did not end it."""
    settings = [
        f"daemon.database_url={database.url()}", "daemon.prover=olga", f"daemon.spool={folder / 'spool'}",
        f"cache.directory={folder / 'cache'}", f"srs.param_cache={folder / 'keys'}", "gpus.cpu_devices=2", *flags,
    ]  # fmt: skip
    command = [sys.executable, "-m", "prover", "daemon", *(word for flag in settings for word in ("--set", flag))]
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("CUZK_")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, text=True, env={**inherited, **(environment or {})})
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def value(database: Database, query: str) -> object:
    with database.connect() as connection:
        row = connection.execute(query).fetchone()  # type: ignore[arg-type]
        return None if row is None else row[0]


def await_value(database: Database, query: str, wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := value(database, query)) != wanted:
        assert time.monotonic() < deadline, f"{query}: {found!r}, not {wanted!r}"
        time.sleep(0.1)


def test_a_life_of_the_prover(database: Database, tmp_path: Path, systemd: Systemd) -> None:  # noqa: F811
    """Also as systemd sees it: ready when it is online, no sign of life while the engine's loop stands, stopping."""
    with daemon(database, tmp_path, environment=systemd.environment(watchdog_s=2)) as process:
        await_value(database, "SELECT count(*) FROM worker WHERE state = 'online'", 4)
        systemd.expect("READY=1")
        systemd.expect("WATCHDOG=1")
        with database.connect() as owner, owner.transaction():
            owner.execute("LOCK TABLE job")  # the loop cannot claim; heart and journal beat on
            assert systemd.quiet(2.0), "a loop that stands is fed for"
        systemd.expect("WATCHDOG=1")
        await_value(database, "SELECT state FROM session WHERE prover = 'olga'", "online")
        names = value(database, "SELECT string_agg(id || ' W' || display_id, ', ' ORDER BY display_id) FROM worker")
        assert names == "olga/0/0 W0, olga/0/1 W1, olga/1/0 W2, olga/1/1 W3"
        status = [sys.executable, "-m", "prover", "status", "--json", "--database", database.url()]
        found = json.loads(subprocess.run(status, capture_output=True, check=True).stdout)
        assert found["synthesis"]["max_concurrent"] == config.load(None, {}).synthesis_workers

        job = submit_one(database, content=b"no request")
        await_value(database, f"SELECT state FROM job WHERE id = '{job}'", "failed")
        assert value(database, f"SELECT error_code FROM job WHERE id = '{job}'") == "invalid_request"

        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == Exit.OK
        assert systemd.expect("STOPPING=1") == ["STOPPING=1", "EXTEND_TIMEOUT_USEC=660000000"]
    assert value(database, "SELECT state FROM session WHERE prover = 'olga'") == "stopped"
    assert value(database, "SELECT count(*) FROM worker WHERE state = 'stopped'") == 4
    assert value(database, "SELECT count(*) FROM anomaly") == 0
    log = (tmp_path / "log").read_text()
    assert log.count("pipeline GPU worker started") == 4 and "Traceback" not in log


def test_a_killed_prover_is_succeeded_by_its_next_session(database: Database, tmp_path: Path) -> None:
    with daemon(database, tmp_path) as process:
        await_value(database, "SELECT count(*) FROM worker WHERE state = 'online'", 4)
        process.kill()
        process.wait()
    with daemon(database, tmp_path, "pipeline.enabled=false") as process:
        await_value(database, "SELECT count(*) FROM session WHERE prover = 'olga' AND state = 'online'", 1)
        await_value(database, "SELECT count(*) FROM session WHERE prover = 'olga' AND state = 'lost'", 1)
        online = "SELECT string_agg(w.id, ' ' ORDER BY w.id) FROM worker w JOIN session s ON s.id = w.session_id " \
            "WHERE w.state = 'online' AND s.state = 'online'"  # fmt: skip
        await_value(database, online, "olga/0/0 olga/1/0")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == Exit.OK
    assert (tmp_path / "log").read_text().count("monolithic GPU worker started") == 2


def test_a_prover_that_lost_its_lease_goes_on_in_a_new_session(database: Database, tmp_path: Path) -> None:
    with daemon(database, tmp_path) as process:
        await_value(database, "SELECT count(*) FROM worker WHERE state = 'online'", 4)
        first = value(database, "SELECT id::text FROM session WHERE prover = 'olga'")
        value(database, f"SELECT supersede_session('{first}')")
        second = f"SELECT count(*) FROM session WHERE prover = 'olga' AND state = 'online' AND id <> '{first}'"
        await_value(database, second, 1)
        online = "SELECT count(*) FROM worker w JOIN session s ON s.id = w.session_id " \
            "WHERE w.state = 'online' AND s.state = 'online'"  # fmt: skip
        await_value(database, online, 4)
        job = submit_one(database, content=b"no request")
        await_value(database, f"SELECT state FROM job WHERE id = '{job}'", "failed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == Exit.OK
    assert value(database, f"SELECT state FROM session WHERE id = '{first}'") == "lost"
    log = (tmp_path / "log").read_text()
    assert log.count("session lost") >= 1 and "thread died" not in log and "Traceback" not in log


def test_a_spool_that_cannot_be_written_stops_the_start(database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with daemon(database, tmp_path, f"daemon.spool={tmp_path}/file/spool") as process:
        assert process.wait(PATIENCE_S) == Exit.UNAVAILABLE
    log = (tmp_path / "log").read_text()
    assert f"daemon.spool: {tmp_path}/file/spool: Not a directory [spool_unwritable]" in log
    assert value(database, "SELECT count(*) FROM session WHERE prover = 'olga'") == 0


def test_a_device_that_is_not_there_stops_the_start(database: Database, tmp_path: Path) -> None:
    with daemon(database, tmp_path, "gpus.devices=0,7") as process:
        assert process.wait(PATIENCE_S) == Exit.UNAVAILABLE
    assert "gpus.devices: device 7 does not exist" in (tmp_path / "log").read_text()
    assert value(database, "SELECT count(*) FROM session WHERE prover = 'olga'") == 0

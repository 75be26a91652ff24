"""`cuzk submit` against a real Postgres, with the rights of a prover."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from prover.commands.exits import Exit
from prover.filecoin import request
from prover.journal.client import Client, DatabaseUnusable, JobUnknown, WaitedTooLong
from prover.journal.errors import DatabaseAway, RequestConflict
from prover.stack.roles import DAEMON, OWNER, SITE
from tests.postgres import Database

from .running import DATA, cuzk

pytestmark = pytest.mark.postgres
FILE = DATA / "2k/requests/window-post.json"
PROOF = bytes(range(192))


def submit(database: Database, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return cuzk("submit", *arguments, env=os.environ | {"DATABASE_URL": database.url(DAEMON)})


def end(database: Database, job: str, state: str, *, proof: bytes | None = None, **columns: Any) -> None:
    """End a job as the journal would, with a wake-up."""
    with psycopg.connect(database.url(OWNER)) as owner:
        if proof is not None:
            owner.execute("INSERT INTO delivery (job_id, proof, verified_at) VALUES (%s, %s, now())", [job, proof])
        for name, value in columns.items():
            owner.execute(f"UPDATE job SET {name} = %s WHERE id = %s", [value, job])
        owner.execute("UPDATE job SET state = %s, ended_at = now() WHERE id = %s", [state, job])
        owner.execute("SELECT pg_notify('cuzk', '')")


def test_the_job_is_queued_as_it_was_asked_for(database: Database) -> None:
    run = submit(database, FILE)
    assert run.returncode == 0, run.stderr
    job = str(uuid.UUID(run.stdout.strip()))
    with database.connect(SITE) as web:
        row = web.execute(
            "SELECT kind, state, partitions, priority, miner_id, request_id FROM job WHERE id = %s", [job]
        ).fetchone()
        (stored,) = web.execute("SELECT request FROM job_input WHERE job_id = %s", [job]).fetchone()
    assert row == ("window-post", "queued", 1, 3, 1000, "wdpost-1000-0-c10bdf0089cffd96")
    assert request.parse_message(bytes(stored)) == request.parse_json(FILE.read_bytes())
    again = submit(database, FILE)
    assert (again.stdout.strip(), again.returncode) == (job, 0)
    assert "was there already: queued" in again.stderr


def test_the_same_id_with_another_content_is_refused_with_both_digests(database: Database, tmp_path: Path) -> None:
    submit(database, FILE)
    other = tmp_path / "other.json"
    fields = json.loads(FILE.read_text())
    other.write_text(json.dumps(fields | {"minerId": "1001"}))
    run = submit(database, other)
    assert run.returncode == Exit.BAD_INPUT
    assert "[request_conflict]" in run.stderr
    for file in (FILE, other):
        assert request.parse_json(file.read_bytes()).digest.hex() in run.stderr


def waited(database: Database, end_as: Callable[[str], None], *arguments: Any) -> tuple[int, str, str]:
    """Exit code, output and notes of `cuzk submit` that waits while the job, by its id, is ended."""
    client = Client(database.url(DAEMON))
    job = client.submit(request.parse_json(FILE.read_bytes()), "test").job
    client.close()
    command = [sys.executable, "-m", "prover", "submit", FILE, *arguments, "--database", database.url(DAEMON)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(word) for word in command], **pipes) as waiting:
        assert "was there already: queued" in waiting.stderr.readline()
        end_as(job)
        printed, said = waiting.communicate(timeout=60)
    assert printed.strip() == job
    return waiting.returncode, printed, said


def test_waiting_gives_the_proof(database: Database, tmp_path: Path) -> None:
    out = tmp_path / "proof"
    code, _, said = waited(database, lambda job: end(database, job, "done", proof=PROOF, local_keys=True), "--out", out)
    assert (code, out.read_bytes()) == (0, PROOF)
    assert "local keys: not for the chain" in said


def test_a_failed_job_is_told_with_its_reason(database: Database) -> None:
    why = {"error_code": "merkle_path_mismatch", "error_message": "vanilla_proofs[0]: no"}
    code, _, said = waited(database, lambda job: end(database, job, "failed", **why), "--wait")
    assert code == Exit.REFUSED
    assert "failed: vanilla_proofs[0]: no [merkle_path_mismatch]" in said


def test_waiting_has_an_end(database: Database) -> None:
    run = submit(database, FILE, "--wait", "--timeout", "0.5")
    assert run.returncode == Exit.UNAVAILABLE
    assert "has not ended after 0.5 s [waited_too_long]" in run.stderr


def test_no_database(tmp_path: Path) -> None:
    run = cuzk("submit", FILE, "--database", "postgresql://nobody@127.0.0.1:1/none")
    assert run.returncode == Exit.UNAVAILABLE
    assert "[database_away]" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_bad_request_never_reaches_the_database(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    run = cuzk("submit", bad, "--database", "postgresql://nobody@127.0.0.1:1/none")
    assert run.returncode == Exit.BAD_INPUT
    assert "[unsupported_proof]" in run.stderr


class TestClient:
    def test_what_is_not_there(self, database: Database) -> None:
        client = Client(database.url(DAEMON))
        nobody = str(uuid.uuid4())
        for ask in (client.job, client.proof):
            with pytest.raises(JobUnknown):
                ask(nobody)
        client.close()

    def test_a_database_that_is_not_ours(self, database: Database) -> None:
        client = Client(database.server.url(DAEMON, "template1"))
        with pytest.raises((DatabaseUnusable, DatabaseAway)):
            client.job(str(uuid.uuid4()))
        client.close()

    def test_a_lost_connection_is_made_again(self, database: Database) -> None:
        client, found = Client(database.url(DAEMON)), request.parse_json(FILE.read_bytes())
        job = client.submit(found, "test")
        looked = threading.Event()
        waiting: list[Any] = []
        thread = threading.Thread(target=lambda: waiting.append(client.wait(job.job, 30, lambda _: looked.set())))
        thread.start()
        assert looked.wait(10)
        with database.server.connect() as superuser:
            superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cuzk submit'"
            )
        end(database, job.job, "done", proof=PROOF)
        thread.join(30)
        assert waiting[0].done
        assert client.submit(found, "test").created is False
        client.close()

    def test_conflict_and_timeout(self, database: Database) -> None:
        client, found = Client(database.url(DAEMON)), request.parse_json(FILE.read_bytes())
        job = client.submit(found, "test").job
        message = found.canonical + b"\xa8\x01\xe9\x07"  # miner_id = 1001 once more: the last one counts
        with pytest.raises(RequestConflict):
            client.submit(request.parse_message(message), "test")
        with pytest.raises(WaitedTooLong):
            client.wait(job, 0.1)
        client.close()

"""The actions of commands are the same everywhere: states, SQL, admin, addresses, documentation."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from prover.stack.roles import OWNER, SITE
from prover.states import WORKER_ACTIONS, Action
from tests.journal.helpers import running, submit_one
from tests.postgres import ROOT, Database

pytestmark = pytest.mark.postgres
ASK = "SELECT request_command(%s, %s, NULL, 'olga')"


def test_sql_has_exactly_the_actions(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(SITE) as web:
        assert prover.take()
        for action in Action:
            assert web.execute(ASK, [action, job if action is Action.CANCEL else prover.workers[0]]).fetchone()
        for odd in ("", "Pause", "explode", "cancel ", "quarantine"):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match="unknown action"):
                web.execute(ASK, [odd, prover.workers[0]])
    with database.connect(OWNER) as owner:
        (text,) = owner.execute("SELECT prosrc FROM pg_proc WHERE proname = 'request_command'").fetchone()
    of_workers, of_jobs = re.search(r"p_action IN \((.*)\)", text), re.findall(r"p_action = '(\w+)'", text)
    assert of_workers is not None
    assert re.findall(r"'(\w+)'", of_workers[1]) == list(WORKER_ACTIONS)
    assert of_jobs == [Action.CANCEL]


def test_the_documentation_has_exactly_the_actions() -> None:
    words = ", ".join(WORKER_ACTIONS)
    row = f"{words} a worker; cancel a job (`prover.states.Action`)"
    assert row in (ROOT / "docs/architecture.md").read_text()
    assert f"Commands ({words})" in (ROOT / "docs/configuration.md").read_text()
    addresses = ", ".join(f"`/{action}`" for action in WORKER_ACTIONS).replace("`/", "`POST /workers/ID/", 1)
    web = (ROOT / "docs/web.md").read_text()
    assert f"| {addresses} |" in web and f"| {words} workers;" in web

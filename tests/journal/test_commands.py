"""The actions of commands are the same everywhere: states, SQL, admin, addresses, documentation."""

from __future__ import annotations

import itertools
from pathlib import Path

import psycopg
import pytest

from prover.stack.roles import OWNER, SITE
from prover.states import ACTIONS, JOB_ACTIONS, WORKER_ACTIONS, Job, Target, job_actions, job_refusal
from tests.journal.helpers import running, submit_one
from tests.postgres import ROOT, Database

pytestmark = pytest.mark.postgres
ASK = "SELECT request_command(%s, %s, NULL, 'olga', %s, %s)"


def test_sql_has_exactly_the_actions(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(SITE) as web:
        targets = {Target.WORKER: prover.workers[0], Target.KEY: "prover-a:v28", Target.PROVER: "prover-a"}
        for kind, target in targets.items():
            for action in ACTIONS[kind]:
                assert web.execute(ASK, [action, target, "{}", kind]).fetchone()
        assert web.execute("SELECT request_command('pause', %s, NULL, 'olga')", [prover.workers[0]]).fetchone()
        for odd in ("", "Pause", "explode", "cancel ", "quarantine", "preload"):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match="unknown action"):
                web.execute(ASK, [odd, prover.workers[0], "{}", Target.WORKER])
        for kind, nobody in [(Target.WORKER, "x/0/0"), (Target.KEY, "x:v28"), (Target.PROVER, "site")]:
            with pytest.raises(psycopg.errors.NoDataFound, match="nobody to"):
                web.execute(ASK, [ACTIONS[kind][0], nobody, "{}", kind])
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="unknown action"):
            web.execute(ASK, ["pause", job, "{}", "planet"])
        with database.connect(OWNER) as owner:
            for kind in Target:
                assert owner.execute("SELECT actions_of(%s)", [kind]).fetchone() == (list(ACTIONS[kind]),)


def test_sql_refuses_of_a_job_what_the_model_refuses(database: Database) -> None:
    with database.connect(OWNER) as owner:
        for action, state in itertools.product(JOB_ACTIONS, (state for state in Job if state)):
            row = owner.execute("SELECT job_refusal(%s, %s)", [action, state]).fetchone()
            assert row == (job_refusal(action, state),)
            assert (row == (None,)) == (action in job_actions(state))


def test_the_documentation_has_exactly_the_actions() -> None:
    words = ", ".join(WORKER_ACTIONS)
    architecture = (ROOT / "docs/architecture.md").read_text()
    for kind, actions in ACTIONS.items():
        assert f"{', '.join(actions)} a {kind}" in architecture
    assert f"Commands ({words})" in (ROOT / "docs/configuration.md").read_text()
    addresses = ", ".join(f"`/{action}`" for action in WORKER_ACTIONS).replace("`/", "`POST /workers/ID/", 1)
    web = (ROOT / "docs/web.md").read_text()
    assert f"| {addresses} |" in web and f"| {words} workers;" in web
    of_jobs = ", ".join(f"`/{action}`" for action in JOB_ACTIONS[1:]).replace("`/", "`POST /jobs/ID/", 1)
    assert f"| {of_jobs} |" in web and f"| {', '.join(JOB_ACTIONS)} jobs" in web

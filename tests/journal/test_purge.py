"""Old samples and anomalies go, some at a time; what is recent, and what jobs did, stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.errors import CheckViolation

from prover.stack.roles import OWNER, SITE
from tests.journal.helpers import assert_fold_equals_tables, running, submit_one
from tests.postgres import Database

pytestmark = pytest.mark.postgres

SAMPLES = """INSERT INTO sample (session_id, at, gauges)
    SELECT %s, date_trunc('minute', now() - interval '22 hours 57 minutes') - n * interval '6 minutes'
           + k * interval '1 second', '{}'
    FROM generate_series(1, 30) AS n, generate_series(0, 1) AS k"""
ANOMALIES = """INSERT INTO anomaly (session_id, at, code, entity, entity_id, old, new, detail)
    SELECT %s, now() - n * interval '10 days', 'dup_end', 'job', 'x', '', '', '{}' FROM generate_series(1, 5) AS n"""


def test_purge(database: Database, tmp_path: Path) -> None:
    submit_one(database)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        prover.prove(claimed)
    with database.connect(OWNER) as owner, database.connect(SITE) as web:
        owner.execute(SAMPLES, [prover.session])
        owner.execute(ANOMALIES, [prover.session])
        # 20 of the 30 minutes are a day old: of each one of its two samples goes
        assert web.execute("SELECT purge(15)").fetchone() == (15 + 3,)
        assert web.execute("SELECT purge(15)").fetchone() == (5,)
        assert web.execute("SELECT purge(15)").fetchone() == (0,)
        assert owner.execute("SELECT count(*) FROM sample WHERE extract(second FROM at) = 1").fetchone() == (30,)
        assert owner.execute("SELECT count(*) FROM anomaly").fetchone() == (2,)
        assert_fold_equals_tables(database)


def test_old_jobs_go_with_all_that_is_theirs_once_they_are_summed_and_open_ones_never(database: Database) -> None:
    old, open_one, young = (submit_one(database) for _ in range(3))
    with database.connect(OWNER) as owner, database.connect(SITE) as web:
        for job, days in ((old, 400), (open_one, 400), (young, 300)):
            owner.execute("UPDATE job SET submitted_at = now() - %s * interval '1 day' WHERE id = %s", [days, job])
        ended = "UPDATE job SET state = 'done', ended_at = submitted_at WHERE id = ANY(%s)"
        owner.execute(ended, [[old, young]])
        owner.execute("UPDATE job SET retry_of_id = %s WHERE id = %s", [old, young])
        assert web.execute("SELECT purge()").fetchone() == (0,)  # it is in no sum yet
        owner.execute(
            "INSERT INTO job_rollup (span, start, kind, done, failed, cancelled, partitions)"
            " SELECT 'hour', date_trunc('hour', ended_at, 'UTC'), '', 1, 0, 0, 1 FROM job WHERE id = %s", [old]
        )  # fmt: skip
        assert web.execute("SELECT purge()").fetchone() == (1,)
        left = {row[0] for row in owner.execute("SELECT id FROM job").fetchall()}
        assert {str(key) for key in left} == {str(open_one), str(young)}
        for table, column in (("transition", "job"), ("job_input", "job_id"), ("job_search", "job_id")):
            rows = owner.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()  # type: ignore[arg-type]
            assert {str(row[0]) for row in rows} == {str(open_one), str(young)}


def test_the_log_goes_up_to_a_checkpoint_but_for_what_open_jobs_did(database: Database) -> None:
    over, open_one = submit_one(database), submit_one(database)
    with database.connect(OWNER) as owner, database.connect(SITE) as web:
        owner.execute("UPDATE transition SET at = at - interval '40 days'")
        owner.execute("UPDATE session SET started_at = started_at - interval '40 days'")
        owner.execute("UPDATE job SET state = 'done', ended_at = now() WHERE id = %s", [over])
        assert web.execute("SELECT purge()").fetchone() == (0,)  # there is no fold of it yet
        owner.execute(
            "INSERT INTO checkpoint (at, heads, state) SELECT now() - n * interval '1 day', jsonb_build_object("
            "site_session()::text, 100), '' FROM unnest(ARRAY[10, 35, 36]) AS n"
        )
        assert web.execute("SELECT purge()").fetchone() == (1,)
        assert [str(row[0]) for row in owner.execute("SELECT job FROM transition").fetchall()] == [open_one]
        assert owner.execute("SELECT count(*) FROM checkpoint").fetchone() == (2,)
        reached = "SELECT reached = (SELECT min(at) FROM checkpoint) FROM retention WHERE name = 'transitions'"
        assert owner.execute(reached).fetchone() == (True,)


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_days_have_bounds(database: Database, days: int) -> None:
    with database.connect(SITE) as web, pytest.raises(CheckViolation):
        web.execute("UPDATE retention SET days = %s", [days])

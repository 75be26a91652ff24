"""Old samples and anomalies go, some at a time; what is recent, and what jobs did, stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.stack.roles import OWNER, SITE
from tests.journal.helpers import assert_fold_equals_tables, running, submit_one
from tests.postgres import Database

pytestmark = pytest.mark.postgres

SAMPLES = """INSERT INTO sample (session_id, at, gauges)
    SELECT %s, now() - interval '23 hours' - n * interval '10 minutes', '{}' FROM generate_series(1, 30) AS n"""
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
        assert web.execute("SELECT purge(20)").fetchone() == (20 + 3,)
        assert web.execute("SELECT purge(20)").fetchone() == (5,)
        assert web.execute("SELECT purge(20)").fetchone() == (0,)
        assert owner.execute("SELECT count(*) FROM sample").fetchone() == (5,)
        assert owner.execute("SELECT count(*) FROM anomaly").fetchone() == (2,)
        assert_fold_equals_tables(database)

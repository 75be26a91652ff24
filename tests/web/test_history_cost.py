"""A page of the history reads some hundred rows of a table of 50,000 jobs, whatever it is filtered by."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import QueryDict

from cuzk_web.history.filters import ENDED, OPEN, JobFilter
from cuzk_web.history.pages import PAGE, page_rows

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

JOBS = 50_000
READ_AT_MOST = 700  # rows, of one page
KINDS = ("", "window-post", "snap-update")
STATES = ("", OPEN, ENDED, "failed")
SINCE = ("", "2026-01-20T00:00", "2026-03-01T00:00")  # in the midst, after all
UNTIL = ("", "2025-12-31T00:00", "2026-01-01T03:00", "2026-01-25T00:00")  # before all, after some, in the midst
EDGES = ("", "before=40", "before=30000", "after=30000", f"after={JOBS - 5}")

#: a job a minute; SnapDeals updates are rare and lie in the first 20,000; one in 500 failed; the last 60 are open
MANY = f"""
INSERT INTO job (id, number, request_id, request_digest, kind, sector_size, priority, partition_index, partitions,
                 partitions_done, submitted_by, submitted_at, ended_at, state, state_at, times, detail, moved_seq,
                 lease_epoch, losses, timings)
SELECT gen_random_uuid(), n, 'wdpost-1000-' || n, '', CASE WHEN n % 100 = 0 AND n < 20000 THEN 'snap-update'
       ELSE 'window-post' END, 2048, 2, 0, 1, 0, 'olga', at, CASE WHEN n <= {JOBS - 60} THEN at + interval '9 s' END,
       CASE WHEN n > {JOBS - 60} THEN 'queued' WHEN n % 500 = 1 THEN 'failed' ELSE 'done' END, at, '{{}}', '{{}}', 0,
       0, 0, '{{}}'
FROM generate_series(1, {JOBS}) AS n, LATERAL (SELECT timestamptz '2026-01-01 UTC' + n * interval '1 minute' AS at) AS a
"""


@pytest.fixture(scope="module")
def many(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The table, for this module; nothing of it stays."""
    with django_db_blocker.unblock(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(MANY)
            cursor.execute("ANALYZE job")
        yield
        transaction.set_rollback(True)


def rows_read(query: str) -> tuple[int, int]:
    """Rows that the database looked at for a page, and rows that it gave."""
    rows = page_rows(JobFilter.from_query(QueryDict(query)))[: PAGE + 1]
    plan = json.loads(rows.explain(format="json", analyze=True))[0]["Plan"]
    return sum(_looked_at(plan)), int(plan["Actual Rows"])


def _looked_at(plan: dict[str, Any]) -> Iterator[int]:
    removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
    if "Scan" in plan["Node Type"]:
        yield int((plan["Actual Rows"] + removed) * plan["Actual Loops"])
    for below in plan.get("Plans", []):
        yield from _looked_at(below)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_filter_reads_the_table(many: None, kind: str, state: str) -> None:
    for since, until, edge in itertools.product(SINCE, UNTIL, EDGES):
        if since and until and since > until:
            continue
        query = f"kind={kind}&state={state}&since={since}&until={until}&{edge}"
        looked_at, given = rows_read(query)
        assert given <= looked_at <= READ_AT_MOST, query


def test_a_search_for_text_reads_its_range_of_time_alone(many: None) -> None:
    looked_at, given = rows_read("q=wdpost-1000-300&since=2026-01-01T04:00&until=2026-01-01T06:00")
    assert (given, looked_at <= 130) == (1, True)


def test_the_measure_sees_a_scan_of_the_table(many: None) -> None:
    looked_at, _ = rows_read("q=there-is-no-such-job")
    assert looked_at >= JOBS

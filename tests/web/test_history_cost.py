"""A page of the history reads some hundred rows of a table of 100,000 jobs, whatever it is filtered by."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.http import QueryDict

from cuzk_web.history.filters import ENDED, OPEN, JobFilter
from cuzk_web.history.pages import FEW, PAGE, page_rows

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

JOBS = 100_000
READ_AT_MOST = 700  # rows, of one page
KINDS = ("", "window-post", "snap-update")
STATES = ("", OPEN, ENDED, "failed")
SINCE = ("", "2026-01-20T00:00", "2026-03-01T00:00")  # in the midst, after all
UNTIL = ("", "2025-12-31T00:00", "2026-01-01T03:00", "2026-01-25T00:00")  # before all, after some, in the midst
EDGES = ("", "before=40", "before=30000", "after=30000", f"after={JOBS - 5}")

#: a job a minute; SnapDeals updates are rare and lie in the first 20,000; one in 500 failed; the last 60 are open
MANY = f"""
INSERT INTO job (id, number, request_id, request_digest, kind, sector_size, priority, partition_index, partitions,
                 partitions_done, miner_id, error_code, submitted_by, submitted_at, ended_at, state, state_at, times,
                 detail, moved_seq, lease_epoch, losses, timings)
SELECT gen_random_uuid(), n, CASE WHEN n % 8000 = 0 THEN 'snap-of-' ELSE 'wdpost-1000-' END || n, '',
       CASE WHEN n % 100 = 0 AND n < 20000 THEN 'snap-update' ELSE 'window-post' END, 2048, 2, 0, 1, 0,
       CASE WHEN n % 500 = 2 THEN 1234 ELSE 1000 END, CASE WHEN n % 500 = 1 THEN 'wrong_challenge' END, 'olga', at,
       CASE WHEN n <= {JOBS - 60} THEN at + interval '9 s' END,
       CASE WHEN n > {JOBS - 60} THEN 'queued' WHEN n % 500 = 1 THEN 'failed' ELSE 'done' END, at, '{{}}', '{{}}', 0,
       0, 0, '{{}}'
FROM generate_series(1, {JOBS}) AS n, LATERAL (SELECT timestamptz '2026-01-01 UTC' + n * interval '1 minute' AS at) AS a
"""


@pytest.fixture(scope="module")
def many(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The table, for this module; nothing of it stays."""
    with django_db_blocker.unblock(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX job_search_words")  # a hundred thousand at once are quicker without
            cursor.execute(MANY)
            cursor.execute("CREATE INDEX job_search_words ON job_search USING gin (words)")
            cursor.execute("ANALYZE job, job_search")
        yield
        transaction.set_rollback(True)


def rows_read(query: str) -> tuple[int, int]:
    """Rows that the database looked at for a page, and rows that it gave."""
    rows = page_rows(JobFilter.from_query(QueryDict(query)))[: PAGE + 1]
    plan = _plan(rows)
    return sum(_looked_at(plan)), int(plan["Actual Rows"])


def _plan(rows: QuerySet[Any]) -> dict[str, Any]:
    """How the database went about it; it is not even asked for what cannot be."""
    said = rows.explain(format="json", analyze=True)
    plan: dict[str, Any] = json.loads(said)[0]["Plan"] if said else {"Node Type": "none", "Actual Rows": 0}
    return plan


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


#: a text, and how many rows are looked at for a page of it, in the index's table and in that of jobs
TEXTS = [
    ("there-is-no-such-job", 0, 0),
    ("wdpost-1000-77777", 300, 300),
    ("00-77777", 300, 300),  # within
    ("SNAP-OF", 50, 50),
    ("snap-of-8000", 50, 50),
    ("wrong_challenge", 500, 500),
    ("f01234", 600, 600),
    ("f0777", 0, 0),
    ("wdpost", 3000, 200),  # nearly all: the newest are read
    ("1000-9", 3 * FEW * 10, 200),  # one in ten, of the newest
]


@pytest.mark.parametrize(("text", "by_words", "by_job"), TEXTS)
@pytest.mark.parametrize("more", ["", "&kind=window-post", "&state=ended&since=2026-01-01T04:00"])
def test_a_search_for_text_reads_few(many: None, text: str, by_words: int, by_job: int, more: str) -> None:
    query = f"q={text}{more}"
    candidates = JobFilter.from_query(QueryDict(query)).candidates()
    assert candidates is not None
    looked_for = sum(_looked_at(_plan(candidates.values_list("job_id")[: FEW + 1])))
    looked_at, _ = rows_read(query)
    assert (looked_for <= by_words, looked_at <= by_job) == (True, True), (looked_for, looked_at)


@pytest.mark.parametrize("text", [text for text, *_ in TEXTS] + ["st", "1", "-77777", "1000-1", "f01000"])
@pytest.mark.parametrize("more", ["", "&kind=snap-update", "&until=2026-02-01T00:00"])
def test_a_search_for_text_finds_what_a_scan_finds(many: None, text: str, more: str) -> None:
    rest = JobFilter.from_query(QueryDict(more[1:]))
    meant = Q(request_id__icontains=text) | Q(error_code=text)
    if (number := text.removeprefix("f0")).isdigit():
        meant |= Q(miner_id=int(number)) | Q(sector_number=int(number))
    scanned = page_rows(rest).filter(meant)[: PAGE + 1]
    found = page_rows(JobFilter.from_query(QueryDict(f"q={text}{more}")))[: PAGE + 1]
    assert [one.number for one in found] == [one.number for one in scanned]


def test_the_measure_sees_a_scan_of_the_table(many: None) -> None:
    looked_at, _ = rows_read("q=%C3%9F")  # one character: the index knows none so short
    assert looked_at >= JOBS

"""Keyset pages: a page is cut at a job's number, so rows that arrive meanwhile move nothing, and nothing is counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from cuzk_web.fleet.models import Job
from prover.errors import CuzkError

from .filters import JobFilter

PAGE = 50  # jobs
SEARCH_LIMIT_MS = 5000


class SearchTooSlow(CuzkError):
    """The search took longer than 5 s and was stopped. Narrow it: a range of time, a kind, a whole request id."""

    code = "search_too_slow"


@dataclass(frozen=True)
class JobPage:
    """Jobs, newest first, and the links to the pages beside (None at an end)."""

    jobs: list[Job]
    newer: str | None
    older: str | None


def job_page(wanted: JobFilter) -> JobPage:
    """The page that the filter asks for. Raises SearchTooSlow."""
    rows, upwards = Job.objects.filter(wanted.where()).defer("request_digest", "times", "timings"), False
    if wanted.after is not None:
        rows, upwards = rows.filter(number__gt=wanted.after).order_by("number"), True
    elif wanted.before is not None:
        rows = rows.filter(number__lt=wanted.before).order_by("-number")
    else:
        rows = rows.order_by("-number")
    with _limited():
        found = list(rows[: PAGE + 1])
    more, jobs = len(found) > PAGE, found[:PAGE]
    if upwards:
        jobs.reverse()
    return _linked(wanted, jobs, more, upwards)


def _linked(wanted: JobFilter, jobs: list[Job], more: bool, upwards: bool) -> JobPage:
    if not jobs:
        back = wanted.url() if wanted.before is not None or wanted.after is not None else None
        return JobPage(jobs, newer=back, older=None)
    has_newer = more if upwards else wanted.before is not None
    has_older = True if upwards else more
    newer = wanted.url(after=jobs[0].number) if has_newer else None
    return JobPage(jobs, newer, wanted.url(before=jobs[-1].number) if has_older else None)


@contextmanager
def _limited() -> Iterator[None]:
    """No reader's search keeps the database busy for long."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {SEARCH_LIMIT_MS}")
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise SearchTooSlow from error
        raise

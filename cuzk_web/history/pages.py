"""Keyset pages: a page is cut at a job, so rows that arrive meanwhile move nothing, and nothing is counted.

Jobs stand in the order of their time of submission: each filter has an index in that order, so that a page costs the
same wherever in the history it lies. Addresses name the edge by the job's number alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet

from cuzk_web.faults import DatabaseTimeout, fault
from cuzk_web.fleet.models import Attempt, Job, Session
from prover.errors import CuzkError

from .filters import JobFilter

PAGE = 50  # jobs
SEARCH_LIMIT_MS = 5000
FEW = 2000  # jobs that a text may mean are looked at one by one; of more, a page is soon full in the order of the list


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
    upwards = wanted.after is not None
    with limited():
        found = list(page_rows(wanted)[: PAGE + 1])
    more, jobs = len(found) > PAGE, found[:PAGE]
    if upwards:
        jobs.reverse()
    return _linked(wanted, jobs, more, upwards)


def page_rows(wanted: JobFilter) -> QuerySet[Job]:
    """The filter's jobs from the page's edge on; upwards, the oldest first, when the edge is `after`."""
    rows = Job.objects.filter(wanted.where()).defer("request_digest", "times", "timings")
    if wanted.prover and not Session.objects.filter(prover=wanted.prover).exists():
        return rows.none()
    if (few := _few(wanted)) is not None:
        rows = rows.filter(pk__in=few)
    elif (last := _last_seen(wanted)) is not None:
        rows = rows.filter(submitted_at__lte=last)
    if wanted.after is not None:
        return rows.filter(_beyond(wanted.after, "gt")).order_by("submitted_at", "number")
    if wanted.before is not None:
        rows = rows.filter(_beyond(wanted.before, "lt"))
    return rows.order_by("-submitted_at", "-number")


def _few(wanted: JobFilter) -> list[uuid.UUID] | None:
    """The jobs that the filter may mean, unless they are many, or only the table itself can tell."""
    found = wanted.candidates()
    by_worker = Attempt.objects.filter(worker=wanted.worker) if wanted.worker else None
    for rows in (found, by_worker):
        ids = None if rows is None else list(rows.values_list("job_id", flat=True)[: FEW + 1])
        if ids is not None and len(ids) <= FEW:
            return ids
    return None


def _last_seen(wanted: JobFilter) -> datetime | None:
    """After it no job of the filter was submitted: its worker, or all of its prover's, did their last thing then."""
    if wanted.worker:
        done = Attempt.objects.filter(worker=wanted.worker).order_by("-state_at").values_list("state_at", flat=True)
        return done.first()
    if wanted.prover:
        ends = list(Session.objects.filter(prover=wanted.prover).values_list("ended_at", flat=True))
        return None if None in ends else max((end for end in ends if end is not None), default=None)
    return None


def _beyond(edge: int, side: str) -> Q:
    """The jobs on one side (gt or lt) of a job; when there is none of this number, of the one before it."""
    near = Job.objects.filter(number__lte=edge).order_by("-number").values_list("submitted_at", flat=True).first()
    if near is None:
        return Q(**{f"number__{side}": edge})
    farther = Q(**{f"submitted_at__{side}": near}) | Q(submitted_at=near, **{f"number__{side}": edge})
    return Q(**{f"submitted_at__{side}e": near}) & farther  # the first part is what an index can be entered by


def _linked(wanted: JobFilter, jobs: list[Job], more: bool, upwards: bool) -> JobPage:
    if not jobs:
        back = wanted.url() if wanted.before is not None or wanted.after is not None else None
        return JobPage(jobs, newer=back, older=None)
    has_newer = more if upwards else wanted.before is not None
    has_older = True if upwards else more
    newer = wanted.url(after=jobs[0].number) if has_newer else None
    return JobPage(jobs, newer, wanted.url(before=jobs[-1].number) if has_older else None)


@contextmanager
def limited() -> Iterator[None]:
    """No reader's search keeps the database busy for long."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {SEARCH_LIMIT_MS}")
            yield
    except DatabaseError as error:
        if isinstance(fault(error), DatabaseTimeout):
            raise SearchTooSlow from error
        raise

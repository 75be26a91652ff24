"""The list of jobs as CSV and as JSON: all jobs of a filter, read and sent in pieces, so that no length is too long."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from cuzk_web.fleet.models import Job

from .filters import InvalidFilter, JobFilter
from .pages import SearchTooSlow, limited, page_rows

PIECE: Final = 1000  # jobs
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet may take for one
COLUMNS: Final[dict[str, Callable[[Job], Any]]] = {
    "number": lambda job: job.number,
    "id": lambda job: str(job.id),
    "request_id": lambda job: job.request_id,
    "kind": lambda job: job.kind,
    "state": lambda job: job.state,
    "sector_size": lambda job: job.sector_size,
    "miner": lambda job: None if job.miner_id is None else f"f0{job.miner_id}",
    "sector": lambda job: job.sector_number,
    "priority": lambda job: job.priority,
    "partitions": lambda job: job.partitions,
    "partitions_done": lambda job: job.partitions_done,
    "submitted_by": lambda job: job.submitted_by,
    "submitted_at": lambda job: _time(job.submitted_at),
    "started_at": lambda job: _time(job.started_at),
    "ended_at": lambda job: _time(job.ended_at),
    "deadline": lambda job: _time(job.deadline),
    "queue_ms": lambda job: _ms(job.submitted_at, job.started_at),
    "total_ms": lambda job: _ms(job.submitted_at, job.ended_at),
    "losses": lambda job: job.losses,
    "local_keys": lambda job: job.local_keys,
    "error_code": lambda job: job.error_code,
    "error_message": lambda job: job.error_message,
}


@require_safe
def as_csv(request: HttpRequest) -> HttpResponseBase:
    """GET /jobs/export.csv: a line a job, times in ISO 8601 (UTC), durations in milliseconds."""
    head = ",".join(COLUMNS) + "\r\n"
    return _export(request, "text/csv; charset=utf-8", "csv", head, lambda jobs, _first: csv_lines(jobs), "")


@require_safe
def as_json(request: HttpRequest) -> HttpResponseBase:
    """GET /jobs/export.json: `{"jobs": [..]}` with the fields of the CSV; what is not known is null."""
    return _export(request, "application/json", "json", '{"jobs":[', json_items, "\n]}\n")


def csv_lines(jobs: Iterable[Job]) -> str:
    """Lines of CSV (RFC 4180); no cell is a formula to a spreadsheet."""
    text = io.StringIO()
    csv.writer(text).writerows([cell(value(job)) for value in COLUMNS.values()] for job in jobs)
    return text.getvalue()


def cell(value: Any) -> Any:
    """A cell; text that a spreadsheet would calculate begins with an apostrophe, which it takes for text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def json_items(jobs: Iterable[Job], first: bool) -> str:
    """The jobs as items of a JSON array, with the commas before them."""
    items = [json.dumps({name: value(job) for name, value in COLUMNS.items()}) for job in jobs]
    return "".join(("\n" if first and n == 0 else ",\n") + item for n, item in enumerate(items))


def _export(
    request: HttpRequest, kind: str, suffix: str, head: str, body: Callable[[list[Job], bool], str], tail: str
) -> HttpResponseBase:
    try:
        wanted = JobFilter.from_query(request.GET)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    wanted = replace(wanted, before=None, after=None)
    try:
        first = _piece(wanted)
    except SearchTooSlow as error:
        return too_slow(request, error)
    response = StreamingHttpResponse(_pieces(wanted, first, head, body, tail), content_type=kind)
    return named(response, f"jobs-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{suffix}")


def too_slow(request: HttpRequest, error: SearchTooSlow) -> HttpResponse:
    """What is said instead of a file that would take too long to find."""
    context = {"status": 503, "text": f"{error.message} [{error.code}]"}
    return render(request, "errors/error.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE)


def named(response: HttpResponseBase, name: str) -> HttpResponseBase:
    """The response as a file to be kept under a name."""
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _pieces(
    wanted: JobFilter, jobs: list[Job], head: str, body: Callable[[list[Job], bool], str], tail: str
) -> AsyncIterator[str]:
    """An error in the midst ends the connection, so that nobody takes a part for the whole."""
    yield head + body(jobs, True)
    while len(jobs) == PIECE:
        jobs = await sync_to_async(_piece)(replace(wanted, before=jobs[-1].number))
        yield body(jobs, False)
    yield tail


def _piece(wanted: JobFilter) -> list[Job]:
    with limited():
        return list(page_rows(wanted)[:PIECE])


def _time(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def _ms(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else round((end - start).total_seconds() * 1000)

"""Throughput and latency by hour and by day, failures by cause, two jobs or two periods side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from cuzk_web import formats
from cuzk_web.fleet.models import Attempt, Job
from cuzk_web.live.labels import KINDS, NONE, duration, kind_name

from . import log, rollups, timeline
from .filters import InvalidFilter, moment, period, whole, word
from .models import Rollup

SPANS: Final = {Rollup.HOUR: timedelta(days=2), Rollup.DAY: timedelta(days=60)}  # and how far back when nobody says
MOST: Final = 400  # lines of a table: a fortnight of hours, a year of days
CAUSES: Final = 200
CAUSES_BACK: Final = timedelta(days=30)

_JOB_CAUSES: Final = """SELECT error_code, count(*), min(ended_at), max(ended_at),
      array_agg(DISTINCT kind ORDER BY kind),
      (array_agg(id::text ORDER BY ended_at DESC))[1], (array_agg(error_message ORDER BY ended_at DESC))[1]
    FROM job WHERE error_code IS NOT NULL AND ended_at >= %s AND ended_at < %s
    GROUP BY error_code ORDER BY max(ended_at) DESC LIMIT %s"""
_ATTEMPT_CAUSES: Final = """SELECT coalesce(reason, state), count(*), min(state_at), max(state_at),
      array_agg(DISTINCT worker_id ORDER BY worker_id) FILTER (WHERE worker_id IS NOT NULL),
      (array_agg(job_id::text ORDER BY state_at DESC))[1], (array_agg(detail ->> 'error' ORDER BY state_at DESC))[1]
    FROM attempt WHERE state IN ('failed', 'lost') AND state_at >= %s AND state_at < %s
    GROUP BY 1 ORDER BY max(state_at) DESC LIMIT %s"""
View = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True)
class Cause:
    """Failures with one code."""

    code: str
    count: int
    first: datetime
    last: datetime
    where: list[str] | None  # kinds of jobs, or workers
    job: str  # the newest
    message: str | None


@dataclass(frozen=True)
class Line:
    """One fact of the two that are compared."""

    name: str
    a: str
    b: str
    change: str = ""


def _clear(view: View) -> View:
    """A bad parameter is a 400 that names it."""

    @wraps(view)
    def clearly(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except InvalidFilter as error:
            raise BadRequest(str(error)) from error

    return require_safe(clearly)


@_clear
def throughput(request: HttpRequest) -> HttpResponse:
    """GET /statistics/?by=hour&kind=&since=&until=: a line an hour, or a day."""
    known(request.GET, "by", "kind", "since", "until")
    span, kind = word(request.GET, "by") or Rollup.HOUR, _kind(request.GET)
    if span not in SPANS:
        raise InvalidFilter(f"must be one of {', '.join(SPANS)}", field="by")
    since, until = window(request.GET, SPANS[span])
    start = since.replace(hour=0 if span == Rollup.DAY else since.hour, minute=0, second=0, microsecond=0)
    rows = Rollup.objects.filter(span=span, kind=kind, start__gte=start, start__lt=until).order_by("-start")
    lines = list(rows[: MOST + 1])
    chart = {
        "length_ms": rollups.LENGTH[span] / timedelta(milliseconds=1), "from": _ms(start),
        "to": max([_ms(until), *(_ms(one.start + rollups.LENGTH[span]) for one in lines[:1])]),
        "bars": [{"at": _ms(one.start), "done": one.done, "failed": one.failed, "cancelled": one.cancelled,
                  "took": one.took_ms} for one in reversed(lines[:MOST])],
    }  # fmt: skip
    return render(request, "history/statistics.html", {
        "by": span, "spans": SPANS, "kind": kind, "kinds": KINDS, "since": since, "until": until,
        "lines": lines[:MOST], "more": len(lines) > MOST, "chart": chart,
    })  # fmt: skip


@_clear
def failures(request: HttpRequest) -> HttpResponse:
    """GET /statistics/failures/?since=&until=: jobs that failed and attempts that failed or were lost, by cause."""
    known(request.GET, "since", "until")
    since, until = window(request.GET, CAUSES_BACK)
    groups = {
        "jobs": [Cause(*record) for record in log.query(_JOB_CAUSES, [since, until, CAUSES])],
        "attempts": [Cause(*record) for record in log.query(_ATTEMPT_CAUSES, [since, until, CAUSES])],
    }
    return render(request, "history/failures.html", {**groups, "since": since, "until": until})


@_clear
def compare(request: HttpRequest) -> HttpResponse:
    """GET /statistics/compare/?a=12&b=15: two jobs by number; or ?a_since=&a_until=&b_since=&b_until=: two periods."""
    query = request.GET
    known(query, "a", "b", "kind", *_PERIODS)
    numbers = whole(query, "a"), whole(query, "b")
    context: dict[str, Any] = {"a": numbers[0], "b": numbers[1], "kinds": KINDS, "kind": _kind(query)}
    context |= {name: moment(query, name) for name in _PERIODS}
    if numbers[0] is not None and numbers[1] is not None:
        jobs = [_job(number) for number in numbers if number is not None]
        context |= {"heads": [f"job {job.number}" for job in jobs], "jobs": jobs, "lines": _jobs(*jobs)}
    elif all(context[name] for name in _PERIODS):
        spans = [(context[f"{side}_since"], context[f"{side}_until"]) for side in "ab"]
        context |= {"heads": ["period A", "period B"], "lines": _periods(spans, context["kind"])}
    elif any(query.values()):
        raise InvalidFilter("two jobs, or the begin and end of two periods, are needed", field="a")
    return render(request, "history/compare.html", context)


_PERIODS: Final = ("a_since", "a_until", "b_since", "b_until")


def known(query: QueryDict, *names: str) -> None:
    """Raises InvalidFilter for a parameter that there is not."""
    for name in query:
        if name not in names:
            raise InvalidFilter(f"there is no such parameter; known are {', '.join(names)}", field=name[:100])


def window(query: QueryDict, back: timedelta) -> tuple[datetime, datetime]:
    """`since` and `until`; until now, and so long before, when they are not given. Raises InvalidFilter."""
    since, until = period(query)
    end = until or datetime.now(UTC) + timedelta(seconds=1)
    return since or end - back, end


def _kind(query: QueryDict) -> str:
    kind = word(query, "kind")
    if kind and kind not in KINDS:
        raise InvalidFilter(f"must be one of {', '.join(KINDS)}", field="kind")
    return kind


def _ms(at: datetime) -> float:
    return formats.to_us(at) / 1000


def _job(number: int) -> Job:
    found = Job.objects.filter(number=number).first()
    if found is None:
        raise Http404(f"There is no job {number}.")
    return found


def _jobs(a: Job, b: Job) -> list[Line]:
    sides = [_job_facts(job) for job in (a, b)]
    names = dict.fromkeys(name for side in sides for name in side)
    return [_line(name, *(side.get(name) for side in sides)) for name in names]


def _job_facts(job: Job) -> dict[str, Any]:
    rows = [timeline.row(one) for one in Attempt.objects.filter(job=job)[:5000]]
    facts: dict[str, Any] = {
        "kind": kind_name(job.kind), "request": job.request_id, "state": job.state,
        "error": job.error_code or NONE, "partitions": str(job.partitions), "attempts": str(len(rows)),
        "queue wait": timeline.wall_ms(job.submitted_at, job.started_at),
        "total": timeline.wall_ms(job.submitted_at, job.ended_at),
    }  # fmt: skip
    return facts | {f"{one.name}, all attempts": one.total_ms for one in timeline.timings(rows, None)}


def _periods(spans: list[tuple[datetime, datetime]], kind: str) -> list[Line]:
    sides = []
    for name, (since, until) in zip("ab", spans, strict=True):
        if since >= until:
            raise InvalidFilter("must be earlier than the end", field=f"{name}_since")
        sides.append(_period_facts(rollups.between(since, until, kind), (until - since) / timedelta(hours=1)))
    return [_line(name, *(side[name] for side in sides)) for name in sides[0]]


def _period_facts(sums: Mapping[str, Any], hours: float) -> dict[str, Any]:
    facts: dict[str, Any] = {name: str(sums[name]) for name in ("done", "failed", "cancelled", "partitions")}
    facts["jobs done an hour"] = f"{sums['done'] / hours:.1f}"
    facts["partitions an hour"] = f"{sums['partitions'] / hours:.1f}"
    for name, key in (("queue wait", "wait_ms"), ("total", "took_ms")):
        for share, ms in zip(rollups.PERCENTILES, sums[key] or [None] * 3, strict=True):
            facts[f"{name}, p{100 * share:.0f}"] = ms
    return facts


def _line(name: str, a: Any, b: Any) -> Line:
    """Milliseconds are put into words, with the change from a to b."""
    if isinstance(a, str) or isinstance(b, str):
        return Line(name, a or NONE, b or NONE)
    change = f"{100 * (b - a) / a:+.0f}%" if a and b is not None else ""
    return Line(name, duration(a), duration(b), change)

"""Jobs as a Chrome trace (the JSON trace-event format, which ui.perfetto.dev opens): what was done when, and by whom.

Each job is a process with a thread a partition; each prover one with a thread a worker, and more for its CPU tails, as
many as ran at once. Times are microseconds from the first event on; `otherData.start` says when that was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from cuzk_web import formats
from cuzk_web.fleet.models import Attempt, Job, Worker
from cuzk_web.live.labels import kind_name

from . import timeline
from .exports import named, too_slow
from .filters import InvalidFilter, JobFilter
from .pages import SearchTooSlow, limited, page_rows

ATTEMPTS: Final = 5000  # of one trace
JOBS: Final = 2000
PROVERS: Final = 1_000_000  # their process ids begin here, those of jobs at 1
_FRONT: Final = ("synth", "ready", "prep", "wait", "device", "finish")
_TAIL: Final = "finalize"
Event = dict[str, Any]


@require_safe
def of_job(request: HttpRequest, job_id: Any) -> HttpResponseBase:
    """GET /jobs/<uuid>/trace.json: one job."""
    job = get_object_or_404(Job, pk=job_id)
    return _answer([job], f"{job.kind}-{job.id}")


@require_safe
def of_period(request: HttpRequest) -> HttpResponseBase:
    """GET /jobs/trace.json: the jobs of a filter that were open at any time between `since` and `until`."""
    try:
        wanted = JobFilter.from_query(request.GET)
        jobs = _between(wanted)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    except SearchTooSlow as error:
        return too_slow(request, error)
    return _answer(jobs, f"jobs-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")


def _between(wanted: JobFilter) -> list[Job]:
    rows = page_rows(replace(wanted, since=None, before=None, after=None))
    if wanted.since is not None:
        rows = rows.filter(Q(ended_at__gt=wanted.since) | Q(ended_at=None))
    with limited():
        jobs = list(rows[: JOBS + 1])
    if len(jobs) > JOBS:
        raise InvalidFilter(f"more than {JOBS} jobs ran then: ask for a shorter time", field="since")
    return jobs


def _answer(jobs: Sequence[Job], name: str) -> HttpResponseBase:
    rows = Attempt.objects.filter(job__in=[job.id for job in jobs]).order_by("job_id", "partition", "attempt_no")
    attempts = list(rows[: ATTEMPTS + 1])
    if len(attempts) > ATTEMPTS:
        raise BadRequest(f"since: more than {ATTEMPTS} attempts ran then: ask for a shorter time")
    workers = Worker.objects.in_bulk({one.worker_id for one in attempts if one.worker_id is not None})
    text = document(jobs, attempts, workers, formats.to_us(datetime.now(UTC)))
    return named(HttpResponse(text, content_type="application/json"), f"{name}.trace.json")


def document(jobs: Sequence[Job], attempts: Sequence[Attempt], workers: Mapping[str, Worker], now_us: int) -> str:
    """The trace; what is still going on lasts until `now_us`."""
    starts = [int(us) for one in attempts for us in one.times.values()]
    start = min([*starts, *(formats.to_us(job.submitted_at) for job in jobs)], default=now_us)
    events = [*_jobs(jobs, attempts, start, now_us), *_workers(jobs, attempts, workers, start, now_us)]
    other = {"start": f"{formats.from_us(start):%Y-%m-%dT%H:%M:%S.%f}Z", "start_us": start}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}, separators=(",", ":"))


def _jobs(jobs: Sequence[Job], attempts: Sequence[Attempt], start: int, now_us: int) -> Iterator[Event]:
    pids = {job.id: pid for pid, job in enumerate(jobs, 1)}
    for job in jobs:
        yield _name("process_name", pids[job.id], 0, f"job {job.number}: {kind_name(job.kind)} {job.request_id}")
        yield _name("thread_name", pids[job.id], 0, "job")
        yield _whole(job, pids[job.id], start, now_us)
    index = {job.id: job.partition_index for job in jobs}
    named_threads = set()
    for one in attempts:
        pid, tid = pids[one.job_id], one.partition + 1
        if (pid, tid) not in named_threads:
            named_threads.add((pid, tid))
            yield _name("thread_name", pid, tid, f"P{one.partition + index[one.job_id]}")
        for phase in timeline.phases(one.times).values():
            yield _slice(phase, phase.name, pid, tid, start, now_us, _words(one))


def _whole(job: Job, pid: int, start: int, now_us: int) -> Event:
    since = formats.to_us(job.submitted_at)
    until = now_us if job.ended_at is None else formats.to_us(job.ended_at)
    words = {"id": str(job.id), "request_id": job.request_id, "state": job.state, "error": job.error_code}
    span = {"ts": since - start, "dur": max(0, until - since)}
    return {"ph": "X", "cat": "job", "name": job.state, "pid": pid, "tid": 0, **span, "args": words}


def _words(one: Attempt) -> dict[str, Any]:
    words = {"worker": one.worker_id, "attempt": one.attempt_no, "state": one.state, "reason": one.reason}
    return {name: value for name, value in words.items() if value is not None}


@dataclass
class _Threads:
    """The threads of one worker: its front, and CPU tails side by side; `busy` is when each tail's thread is free."""

    pid: int
    first: int
    busy: list[int] = field(default_factory=list)

    def tail(self, since: int, until: int) -> int:
        """A thread in which nothing else runs then."""
        for lane, free in enumerate(self.busy):
            if free <= since:
                self.busy[lane] = until
                return self.first + 1 + lane
        self.busy.append(until)
        return self.first + len(self.busy)


def _workers(
    jobs: Sequence[Job], attempts: Iterable[Attempt], workers: Mapping[str, Worker], start: int, now_us: int
) -> Iterator[Event]:
    names = {job.id: f"#{job.number} P" for job in jobs}
    index = {job.id: job.partition_index for job in jobs}
    provers = sorted({worker.prover for worker in workers.values()})
    for n, prover in enumerate(provers):
        yield _name("process_name", PROVERS + n, 0, f"prover {prover}")
    threads = {
        key: _Threads(PROVERS + provers.index(worker.prover), 1000 * (worker.display_id + 1))
        for key, worker in workers.items()
    }
    for one in sorted(attempts, key=lambda one: int(one.times.get("finalizing", 0))):
        if one.worker_id in threads:
            yield from _held(one, threads[one.worker_id], f"{names[one.job_id]}{one.partition + index[one.job_id]}",
                             start, now_us)  # fmt: skip
    for key, lanes in threads.items():
        label = f"W{workers[key].display_id} · GPU {workers[key].ordinal}"
        yield _name("thread_name", lanes.pid, lanes.first, label)
        for lane in range(len(lanes.busy)):
            yield _name("thread_name", lanes.pid, lanes.first + 1 + lane, f"{label} · CPU tail")


def _held(one: Attempt, threads: _Threads, what: str, start: int, now_us: int) -> Iterator[Event]:
    """What a worker did of an attempt, from its claim on."""
    claimed = int(one.times.get("claimed", now_us))
    for phase in timeline.phases(one.times).values():
        if phase.start_us < claimed or phase.name not in (*_FRONT, _TAIL):
            continue
        until = now_us if phase.ms is None else phase.start_us + round(phase.ms * 1000)
        tid = threads.tail(phase.start_us, until) if phase.name == _TAIL else threads.first
        yield _slice(phase, f"{what} {phase.name}", threads.pid, tid, start, now_us, _words(one))


def _slice(
    phase: timeline.Phase, name: str, pid: int, tid: int, start: int, now_us: int, words: dict[str, Any]
) -> Event:
    lasted = max(0, now_us - phase.start_us) if phase.ms is None else round(phase.ms * 1000)
    span = {"ts": phase.start_us - start, "dur": lasted}
    return {"ph": "X", "cat": phase.name, "name": name, "pid": pid, "tid": tid, **span, "args": words}


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}

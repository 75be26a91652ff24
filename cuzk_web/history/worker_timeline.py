"""What each worker and device did in a period: bars on one axis, and the share of the time that each phase took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from cuzk_web import formats
from cuzk_web.fleet.models import Attempt, Job, Worker

from . import timeline
from .filters import InvalidFilter, word
from .statistics import known, window

BACK: Final = timedelta(hours=1)
LONGEST: Final = timedelta(hours=24)
LATER: Final = timedelta(hours=1)  # an attempt that ended so long after the period may have begun in it
ATTEMPTS: Final = 5000
WORKERS: Final = 256
COLUMNS: Final = ("prep", "wait", "device", "finish", "finalize")


@dataclass(frozen=True)
class Use:
    """How a worker, or a device, spent a period: milliseconds by phase, and shares of the period."""

    name: str
    key: str
    attempts: int
    spent: Mapping[str, float]
    length_ms: float

    @property
    def cells(self) -> list[tuple[str, float, float]]:
        """(name, milliseconds, share) of each of COLUMNS."""
        return [(name, self.spent[name], self.spent[name] / self.length_ms) for name in COLUMNS]

    @property
    def idle(self) -> float:
        """The share in which it held nothing (CPU tails leave it free)."""
        held = sum(ms for name, ms in self.spent.items() if name != "finalize")
        return max(0.0, 1 - held / self.length_ms)


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """GET /statistics/workers/?since=&until=&prover=: at most 24 hours and 5000 attempts."""
    try:
        known(request.GET, "since", "until", "prover")
        since, until = window(request.GET, BACK)
        if not timedelta() < until - since <= LONGEST:
            raise InvalidFilter("must lie at most 24 hours before until", field="since")
        prover = word(request.GET, "prover")
        workers = list((Worker.objects.filter(prover=prover) if prover else Worker.objects.all())[:WORKERS])
        attempts = _held(workers, since, until)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    uses = _uses(workers, attempts, since, until)
    return render(request, "history/workers.html", {
        "since": since, "until": until, "prover": prover, "columns": COLUMNS,
        "workers": uses, "devices": _devices(uses),
        "views": _views(workers, attempts),
        "span": {"from": formats.to_us(since) / 1000, "to": formats.to_us(until) / 1000},
    })  # fmt: skip


def _held(workers: Iterable[Worker], since: datetime, until: datetime) -> list[Attempt]:
    until_us = formats.to_us(until)
    found: list[Attempt] = []
    for worker in workers:
        rows = Attempt.objects.filter(worker=worker, state_at__gte=since, state_at__lte=until + LATER)
        found += rows.order_by("-state_at")[: ATTEMPTS + 1]
        if len(found) > ATTEMPTS:
            raise InvalidFilter(f"more than {ATTEMPTS} attempts ran then: ask for a shorter time", field="since")
    return [one for one in found if int(one.times.get("claimed", until_us)) < until_us]


def _spent(attempts: Iterable[Attempt], since: datetime, until: datetime) -> dict[str, float]:
    """Milliseconds of each phase within the period, from each attempt's claim on."""
    low, high = formats.to_us(since), formats.to_us(until)
    sums = dict.fromkeys((*COLUMNS, "synth", "ready"), 0.0)
    for one in attempts:
        claimed = int(one.times.get("claimed", high))
        for phase in timeline.phases(one.times).values():
            end = high if phase.ms is None else phase.start_us + phase.ms * 1000
            if phase.start_us >= claimed and phase.name in sums:
                sums[phase.name] += max(0.0, min(end, high) - max(phase.start_us, low)) / 1000
    return sums


def _uses(workers: Iterable[Worker], attempts: list[Attempt], since: datetime, until: datetime) -> list[Use]:
    length, uses = (until - since) / timedelta(milliseconds=1), []
    for worker in workers:
        mine = [one for one in attempts if one.worker_id == worker.id]
        name = f"W{worker.display_id} · GPU {worker.ordinal}"
        uses.append(Use(name, worker.id, len(mine), _spent(mine, since, until), length))
    return uses


def _devices(uses: Iterable[Use]) -> list[Use]:
    """A device is held by one worker at a time: what they spend on it adds up, what they wait does not."""
    by_device: dict[str, list[Use]] = {}
    for use in uses:
        by_device.setdefault(use.key.rpartition("/")[0], []).append(use)
    found = []
    for device, held in by_device.items():
        spent = dict.fromkeys(held[0].spent, 0.0) | {"device": sum(use.spent["device"] for use in held)}
        name, attempts = f"GPU {device.rpartition('/')[2]}", sum(use.attempts for use in held)
        found.append(Use(name, device, attempts, spent, held[0].length_ms))
    return found


def _views(workers: Iterable[Worker], attempts: list[Attempt]) -> dict[str, Any]:
    """In the shape of `FleetState.to_json`, so that the live page's rows of workers can be made of them."""
    jobs = Job.objects.filter(pk__in={one.job_id for one in attempts}).only(
        "id", "request_id", "kind", "number", "partition_index", "state", "submitted_at"
    )
    views: dict[str, dict[str, Any]] = {"worker": {}, "attempt": {}, "job": {}}
    for worker in workers:
        facts: dict[str, Any] = {"display": worker.display_id, "ordinal": worker.ordinal, "sub": worker.sub_id}
        views["worker"][worker.id] = timeline.view(worker.state, {}, facts)
    for job in jobs:
        facts = {"request_id": job.request_id, "kind": job.kind, "partition_index": job.partition_index}
        views["job"][str(job.id)] = timeline.view(job.state, {}, facts)
    for one in attempts:
        views["attempt"][one.id] = timeline.attempt_view(one)
    return {"views": views, "heads": {}, "ended": {}}

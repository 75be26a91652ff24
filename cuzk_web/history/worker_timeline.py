"""What each worker and device did in a period: bars on one axis, and the share of the time that each phase took."""

from __future__ import annotations

import itertools
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

from . import log, timeline
from .filters import InvalidFilter, word
from .spans import Span, length_ms, union, within, without
from .statistics import known, window

BACK: Final = timedelta(hours=1)
LONGEST: Final = timedelta(hours=24)
LATER: Final = timedelta(hours=1)  # an attempt that ended so long after the period may have begun in it
ATTEMPTS: Final = 5000
WORKERS: Final = 256
COLUMNS: Final = ("prep", "wait", "device", "finish", "finalize", "paused", "away")
_AWAY: Final = ("lost", "stopped")
_PAUSED: Final = ("paused", "draining", "disabled", "quarantined")
#: the last move of each kind before the period, and all within
_MOVES: Final = """SELECT entity_id, entity, to_us(at), new FROM transition
    WHERE entity_id = ANY(%s) AND entity IN ('worker', 'admin') AND at > %s AND at < %s
    UNION ALL
    SELECT w.id, e.entity, to_us(%s), t.new
    FROM unnest(%s::text[]) AS w(id), unnest(ARRAY['worker', 'admin']) AS e(entity),
      LATERAL (SELECT new FROM transition WHERE entity_id = w.id AND entity = e.entity AND entity IN ('worker', 'admin')
        AND at <= %s ORDER BY at DESC LIMIT 1) AS t
    ORDER BY 1, 2, 3"""


@dataclass(frozen=True)
class Use:
    """How a worker, or a device, spent a period: milliseconds by phase, and shares of the period."""

    name: str
    key: str
    attempts: int
    spent: Mapping[str, float]
    length_ms: float
    idle_ms: float  # it held nothing, was there, and nobody had paused it; CPU tails leave it free

    @property
    def cells(self) -> list[tuple[str, float, float]]:
        """(name, milliseconds, share) of each of COLUMNS."""
        return [(name, self.spent[name], self.spent[name] / self.length_ms) for name in COLUMNS]

    @property
    def idle(self) -> float:
        """The share of `idle_ms`."""
        return self.idle_ms / self.length_ms


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


def _held_spans(one: Attempt, until_us: int) -> dict[str, Span]:
    """Each phase from the attempt's claim on; one that lasts ends with the period."""
    claimed, found = int(one.times.get("claimed", until_us)), {}
    for phase in timeline.phases(one.times).values():
        if phase.start_us >= claimed:
            end = until_us if phase.ms is None else phase.start_us + round(phase.ms * 1000)
            found[phase.name] = (phase.start_us, end)
    return found


def _moves(workers: Iterable[Worker], since: datetime, until: datetime) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """(worker, "worker" or "admin") -> the states that it was in, each with its begin, in order."""
    ids = [worker.id for worker in workers]
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for key, entity, us, new in log.query(_MOVES, [ids, since, until, since, ids, since]):
        found.setdefault((key, entity), []).append((us, new))
    return found


def _in_states(moves: list[tuple[int, str]], states: tuple[str, ...], until_us: int) -> list[Span]:
    """When it was in one of some states."""
    following = itertools.pairwise([*moves, (until_us, "")])
    return [(us, end) for (us, state), (end, _) in following if state in states]


def _uses(workers: Iterable[Worker], attempts: list[Attempt], since: datetime, until: datetime) -> list[Use]:
    low, high = formats.to_us(since), formats.to_us(until)
    moves = _moves(workers, since, until)
    uses = []
    for worker in workers:
        mine = [one for one in attempts if one.worker_id == worker.id]
        away = _in_states(moves.get((worker.id, "worker"), []), _AWAY, high)
        paused = _in_states(moves.get((worker.id, "admin"), []), _PAUSED, high)
        name = f"W{worker.display_id} · GPU {worker.ordinal}"
        uses.append(_use(name, worker.id, [_held_spans(one, high) for one in mine], paused, away, (low, high)))
    return uses


def _use(name: str, key: str, held: list[dict[str, Span]], paused: list[Span], away: list[Span], period: Span) -> Use:
    """What is not spent on an attempt is paused or away, if anybody said so, and else idle."""
    low, high = period
    phases = {phase: [spans[phase] for spans in held if phase in spans] for phase in (*COLUMNS, "synth", "ready")}
    spent = {phase: length_ms(within(spans, low, high)) for phase, spans in phases.items()}
    fronts = union(span for phase, spans in phases.items() if phase != "finalize" for span in spans)
    gone = without(within(away, low, high), fronts)
    stopped = without(within(paused, low, high), [*fronts, *gone])
    idle = without([period], [*fronts, *gone, *stopped])
    spent |= {"paused": length_ms(stopped), "away": length_ms(gone)}
    return Use(name, key, len(held), spent, (high - low) / 1000, length_ms(idle))


def _devices(uses: Iterable[Use]) -> list[Use]:
    """A device is held by one worker at a time: what they spend on it adds up, what they wait does not."""
    by_device: dict[str, list[Use]] = {}
    for use in uses:
        by_device.setdefault(use.key.rpartition("/")[0], []).append(use)
    found = []
    for device, held in by_device.items():
        computing = sum(use.spent["device"] for use in held)
        spent, length = dict.fromkeys(held[0].spent, 0.0) | {"device": computing}, held[0].length_ms
        name, attempts = f"GPU {device.rpartition('/')[2]}", sum(use.attempts for use in held)
        found.append(Use(name, device, attempts, spent, length, max(0.0, length - computing)))
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

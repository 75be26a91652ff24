"""The live page as it was at any moment: the same events, folded by the same rules, forgotten by the same rules.

What the page reads beside the events (gauges, signs of life) comes from the samples that are kept; where there is none
near enough, the page says "not recorded".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from cuzk_web import formats
from cuzk_web.live.protocol import compact
from cuzk_web.live.retention import forget
from cuzk_web.live.rows import SITE
from cuzk_web.live.views import in_script
from prover.errors import CuzkError
from prover.states import Entity

from . import checkpoints, log
from .checkpoints import Cut
from .filters import InvalidFilter, moment
from .models import Retention

MOST_ROWS: Final = 60_000  # that a seek folds; checkpoints lie 4000 apart
PIECE_ROWS: Final = 5000  # that a page is sent to go on from where it is
PIECE: Final = timedelta(hours=1)
RECENT: Final = timedelta(seconds=70)  # a sample stands for so long: older ones are thinned to one a minute
SAMPLES: Final = 2000  # of a piece

_SAMPLES: Final = """SELECT k.id::text, to_us(sm.at), sm.gauges,
      (SELECT count(*) FROM (SELECT FROM anomaly a WHERE a.session_id = k.id AND a.at <= %s LIMIT 10000) counted)
    FROM unnest(%s::uuid[]) AS k(id) LEFT JOIN LATERAL (SELECT at, gauges FROM sample
      WHERE session_id = k.id AND at <= %s AND at > %s ORDER BY at DESC LIMIT 1) sm ON true"""
_SAMPLES_BETWEEN: Final = """SELECT session_id::text, to_us(at), gauges FROM unnest(%s::uuid[]) AS k(id)
    JOIN sample ON session_id = k.id AND at > %s AND at <= %s ORDER BY at LIMIT %s"""
_FIRST: Final = "SELECT min(started_at) FROM session WHERE id <> %s"


class ReplayNotReady(CuzkError):
    """The log of that time is not prepared for replays yet. Try again in a minute."""

    code = "replay_not_ready"


@dataclass(frozen=True)
class Moment:
    """The fleet at a moment, and what was sampled of each session."""

    cut: Cut
    at: datetime
    live: dict[str, dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """In the shape of GET /live/snapshot."""
        us = formats.to_us(self.at)
        return {"state": self.cut.state.to_json(), "now_us": us, "read_us": us, "live": self.live}


def at(when: datetime) -> Moment:
    """The live page's fold at a moment. Raises ReplayNotReady, and InvalidFilter for one that is not kept any more."""
    cut = checkpoints.last(when)
    if not cut.at_us and (reached := _purged()) is not None:
        raise InvalidFilter(f"is before what is kept: the log begins at {reached:%Y-%m-%dT%H:%M:%SZ}", field="at")
    high = log.heads(cut.heads, cut.at, when)
    if sum(seq - cut.heads.get(key, 0) for key, seq in high.items()) > MOST_ROWS:
        raise ReplayNotReady
    for t in log.between(cut.heads, high, MOST_ROWS):
        cut.take(t)
    forget(cut.state, formats.to_us(when))
    # what has been forgotten of a session is not its head: a page that goes on from here needs that of each
    cut.state.heads |= {key: seq for key, seq in cut.heads.items() if key in high or key in cut.state.heads}
    return Moment(cut, when, _live(cut.state.views[Entity.SESSION], when))


def piece(after: datetime, until: datetime) -> dict[str, Any] | None:
    """What a page needs to go on from one moment to another; None when that is too much."""
    known = {key: high for key, _, high in log.sessions(after, until)}
    low = log.heads({}, after, after)
    high = log.heads(low, after, until)
    rows = log.between(low, high, PIECE_ROWS + 1)
    if len(rows) > PIECE_ROWS:
        return None
    records = log.query(_SAMPLES_BETWEEN, [[key for key in known if key != SITE], after, until, SAMPLES])
    samples = [[key, us, json.loads(gauges)] for key, us, gauges in records]
    return {"rows": [t.to_row() for t in rows], "samples": samples, "until_us": formats.to_us(until)}


def recorded_from() -> datetime | None:
    """The first moment that can be replayed; None when there is nothing yet."""
    first: datetime | None = _purged() or log.query(_FIRST, [SITE])[0][0]
    return first


def _purged() -> datetime | None:
    """Until when the log has gone; the checkpoint of that moment is the first that is left."""
    return Retention.objects.filter(name="transitions").values_list("reached", flat=True).first()


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """GET /replay/?at=2026-11-30T08:00:00: the page, with that moment in it (or the present one)."""
    now = datetime.now(UTC)
    try:
        when = min(_wanted(request, "at") or now, now)
        found = at(when)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    except ReplayNotReady as error:
        context = {"status": 503, "text": f"{error.message} [{error.code}]"}
        return render(request, "errors/error.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE)
    first = recorded_from()
    bounds = {"from_us": formats.to_us(first or now), "to_us": formats.to_us(now)}
    context = {"snapshot": in_script(compact(found.to_json())), "bounds": bounds, "at": when}
    return render(request, "history/replay.html", context)


@require_safe
def state(request: HttpRequest) -> HttpResponse:
    """GET /replay/state?at=..: that moment in the shape of the live page's snapshot."""
    try:
        when = _given(request, "at")
        return HttpResponse(compact(at(when).to_json()), "application/json")
    except InvalidFilter as error:
        return _refused(error, HTTPStatus.BAD_REQUEST)
    except ReplayNotReady as error:
        return _refused(error, HTTPStatus.SERVICE_UNAVAILABLE)


@require_safe
def rows(request: HttpRequest) -> HttpResponse:
    """GET /replay/rows?after=..&until=..: the log's rows and samples between; `{"reset": true}` when too many."""
    try:
        after, until = _given(request, "after"), _given(request, "until")
        if not timedelta() <= until - after <= PIECE:
            raise InvalidFilter("must lie within an hour after `after`", field="until")
    except InvalidFilter as error:
        return _refused(error, HTTPStatus.BAD_REQUEST)
    return HttpResponse(compact(piece(after, until) or {"reset": True}), "application/json")


def _wanted(request: HttpRequest, name: str) -> datetime | None:
    for given in request.GET:
        if given not in ("at", "after", "until"):
            raise InvalidFilter("there is no such parameter", field=given[:100])
    return moment(request.GET, name)


def _given(request: HttpRequest, name: str) -> datetime:
    found = _wanted(request, name)
    if found is None:
        raise InvalidFilter("is missing: a time like 2026-11-30T08:00:00", field=name)
    return found


def _refused(error: CuzkError, status: HTTPStatus) -> JsonResponse:
    return JsonResponse({"code": error.code, "message": str(error)}, status=status)


def _live(sessions: Iterable[str], when: datetime) -> dict[str, dict[str, Any]]:
    """What was sampled last of each session; nothing where that is too long ago."""
    keys = [key for key in sessions if key != SITE]
    return {
        key: {"sample_us": us, "gauges": None if gauges is None else json.loads(gauges), "anomalies": anomalies}
        for key, us, gauges, anomalies in log.query(_SAMPLES, [when, keys, when, when - RECENT])
    }

"""Health: `/livez` touches nothing and says that this process answers; `/readyz` says whether it can serve."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from typing import Final

import psycopg
from django.contrib.auth.decorators import login_not_required
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from cuzk_web.faults import fault
from cuzk_web.live.hub import running
from cuzk_web.live.source import connect

STALE_S: Final = 15.0  # the hub reads at least every 5 s
ANSWER_S: Final = 3.0  # a monitor is told no later than this
CONNECT_S: Final = 2

_looking: set[asyncio.Task[list[str]]] = set()  # looks at the database under way; the last ones nobody may wait for


@login_not_required
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """200 as long as the process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
async def readyz(request: HttpRequest) -> JsonResponse:
    """200 when every check is true, else 503; `reasons` says what is wrong, without secrets or addresses."""
    started = time.perf_counter()
    reasons = await _database()
    database_ms = round(1000 * (time.perf_counter() - started), 1)
    ages = [hub.age_s for hub in running()]
    reasons += [reason for age in ages if (reason := _stale(age))]
    live_age = max((age for age in ages if age is not None), default=None)
    body = {"ready": not reasons, "reasons": reasons, "database_ms": database_ms, "live_age_s": live_age}
    return JsonResponse(body, status=200 if not reasons else 503)


def _stale(age: float | None) -> str | None:
    if age is None:
        return "live: the event log has not been read yet"
    return f"live: the event log was read {age:.0f} s ago" if age > STALE_S else None


async def _database() -> list[str]:
    """What is wrong with the database; known within ANSWER_S, also of one that is frozen."""
    looking = _look()
    done, _ = await asyncio.wait([looking], timeout=ANSWER_S)
    if not done:
        return [f"database: no answer within {ANSWER_S:.0f} s"]
    if isinstance(error := looking.exception(), psycopg.Error):
        found = fault(error)
        return [f"database: {found.code if found else type(error).__name__}"]
    unapplied = looking.result()
    return [f"migrations not applied: {', '.join(unapplied)}"] if unapplied else []


def _look() -> asyncio.Task[list[str]]:
    """The look that is under way, or a new one: whoever asks often, logged in or not, takes one connection."""
    loop = asyncio.get_running_loop()
    for looking in _looking:
        if looking.get_loop() is loop:
            return looking
    looking = asyncio.create_task(_unapplied())
    _looking.add(looking)
    looking.add_done_callback(_looked)
    return looking


def _looked(looking: asyncio.Task[list[str]]) -> None:
    """A look that came too late ends by the bounds of its connection, and nobody asks how."""
    _looking.discard(looking)
    if not looking.cancelled():
        looking.exception()


async def _unapplied() -> list[str]:
    """The migrations that the code has and the database does not. Raises psycopg.Error when it cannot be asked."""
    async with await connect(connect_s=CONNECT_S) as connection:
        cursor = await connection.execute("SELECT app, name FROM django_migrations")
        return sorted(f"{app}.{name}" for app, name in _known() - set(await cursor.fetchall()))


@cache
def _known() -> frozenset[tuple[str, str]]:
    """(app, name) of every migration that the code has."""
    return frozenset(MigrationLoader(None).disk_migrations)

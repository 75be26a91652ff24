"""Health: `/livez` touches nothing and says that this process answers; `/readyz` says whether it can serve."""

from __future__ import annotations

import time

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from cuzk_web.live.hub import running

STALE_S = 15.0  # the hub reads at least every 5 s


@login_not_required
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """200 as long as the process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when every check is true, else 503; `reasons` says what is wrong, without secrets or addresses."""
    reasons: list[str] = []
    started = time.perf_counter()
    try:
        unapplied = _unapplied()
    except DatabaseError as error:
        reasons.append(f"database: {type(error).__name__}")
    else:
        if unapplied:
            reasons.append(f"migrations not applied: {', '.join(unapplied)}")
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


def _unapplied() -> list[str]:
    """The migrations that the code has and the database does not. Raises DatabaseError when it cannot be reached."""
    connection.ensure_connection()
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _backwards in plan]

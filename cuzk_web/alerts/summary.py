"""How many alerts are open, for the head of every page."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from cuzk_web.accounts.roles import may_view

from .models import Alert


def open_by_severity() -> dict[str, int]:
    """severity -> open alerts."""
    found: dict[str, int] = {}
    for severity in Alert.objects.filter(closed_at=None).values_list("severity", flat=True)[:1000]:
        found[severity] = found.get(severity, 0) + 1
    return found


def in_header(request: HttpRequest) -> dict[str, Any]:
    """Context processor: `open_alerts`, read only by a page that shows it; None for who may not see it."""
    return {"open_alerts": SimpleLazyObject(lambda: _count(request))}


def _count(request: HttpRequest) -> dict[str, Any]:
    try:
        found = open_by_severity() if may_view(request.user) else {}
    except DatabaseError:  # an error page is shown without the database, too
        found = {}
    return {"number": sum(found.values()), "severity": "critical" if found.get("critical") else "warning"}

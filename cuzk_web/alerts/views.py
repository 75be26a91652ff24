"""The list of alerts: those that are open, then those that were, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from cuzk_web.history.filters import InvalidFilter

from .conditions import MEANINGS, Condition, Severity
from .models import Alert, Channel, Evaluation, Notification, Rule

PAGE: Final = 50  # closed alerts
MOST_OPEN: Final = 200
LATE_S: Final = 30.0  # rules are looked at every 3 s; nobody has for so long: say so
MESSAGES: Final = 6  # of an alert that are shown


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """What the address asks for; `before` is the id at which the page begins."""

    condition: str = ""
    severity: str = ""
    before: int | None = None

    @staticmethod
    def from_query(query: Any) -> AlertFilter:
        """Raises InvalidFilter, naming the parameter."""
        if unknown := set(query) - {"condition", "severity", "before"}:
            raise InvalidFilter("no such filter", field=min(unknown)[:40])
        condition, severity, before = (query.get(name, "") for name in ("condition", "severity", "before"))
        if condition not in ("", *Condition):
            raise InvalidFilter(f"one of {', '.join(Condition)}", field="condition")
        if severity not in ("", *Severity):
            raise InvalidFilter(f"one of {', '.join(Severity)}", field="severity")
        if before and not (before.isascii() and before.isdigit() and len(before) <= 18):
            raise InvalidFilter("a number of up to 18 digits", field="before")
        return AlertFilter(condition, severity, int(before) if before else None)

    def rows(self) -> QuerySet[Alert]:
        """All that match, closed or not."""
        chosen = {name: value for name in ("condition", "severity") if (value := getattr(self, name))}
        messages = Notification.objects.select_related("channel").order_by("-created_at")
        return Alert.objects.filter(**chosen).prefetch_related(Prefetch("notifications", messages, "messages"))

    def older(self, last: Alert) -> str:
        """The address of the page after `last`."""
        words = {"condition": self.condition, "severity": self.severity, "before": last.pk}
        return f"?{urlencode({name: value for name, value in words.items() if value})}"


@require_safe
def alert_list(request: HttpRequest) -> HttpResponse:
    """GET /alerts/. 400 for a filter that makes no sense."""
    try:
        wanted = AlertFilter.from_query(request.GET)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    closed = wanted.rows().filter(closed_at__isnull=False).order_by("-pk")
    closed = closed.filter(pk__lt=wanted.before) if wanted.before is not None else closed
    page = list(closed[: PAGE + 1])
    firing = [] if wanted.before is not None else list(_firing(wanted))
    return render(request, "alerts/alert_list.html", {
        "filter": wanted, "firing": firing, "closed": page[:PAGE],
        "older": wanted.older(page[PAGE - 1]) if len(page) > PAGE else None,
        "conditions": {one.value: MEANINGS[one].name for one in Condition}, "severities": list(Severity),
        "rules": Rule.objects.filter(enabled=True).count(), "channels": Channel.objects.filter(enabled=True).count(),
        "looked": _looked(),
    })  # fmt: skip


def _firing(wanted: AlertFilter) -> QuerySet[Alert]:
    return wanted.rows().filter(closed_at=None).order_by("severity", "-opened_at", "-pk")[:MOST_OPEN]


def _looked() -> dict[str, Any]:
    """When the rules were looked at last, and whether that is too long ago."""
    last = Evaluation.objects.filter(pk=1).first()
    at: datetime | None = None if last is None else last.at
    late = at is None or (timezone.now() - at).total_seconds() > LATE_S
    return {"at": at, "late": late, "error": "" if last is None else last.error}

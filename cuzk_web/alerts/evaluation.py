"""All rules, looked at together: alerts open, go on and close, and messages are made for the channels.

Any number of processes may call this: a lock of the transaction lets one do it, and the time of the last look keeps the
others from doing it again at once. What is written goes with the lock, so a process that dies leaves nothing half done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, connection, transaction

from .facts import Fact, database_now, facts
from .messages import queue, queue_together
from .models import Alert, Evaluation, Rule

log = logging.getLogger(__name__)

EVERY_S: Final = 3.0
LOCK: Final = 0x63757A6B_616C7274  # "cuzkalrt"
BURST: Final = 5  # alerts of a rule that open at once are said each for itself; more, in one message
KEEP: Final = timedelta(days=90)  # of an alert, after its end


def evaluate(every_s: float = EVERY_S) -> bool:
    """Look at all rules, unless somebody does or did within `every_s`; whether this call did."""
    with transaction.atomic():
        if not _locked():
            return False
        now = database_now()
        last = Evaluation.objects.filter(pk=1).first()
        if last is not None and timedelta(0) <= now - last.at < timedelta(seconds=0.8 * every_s):
            return False
        failed = [text for rule in Rule.objects.filter(enabled=True) if (text := _evaluate(rule, now))]
        _close_orphans(now)
        _forget(now)
        Evaluation.objects.update_or_create(pk=1, defaults={"at": now, "error": "; ".join(failed)})
    return True


def _locked() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        (got,) = cursor.fetchone()
    return bool(got)


def _evaluate(rule: Rule, now: datetime) -> str | None:
    """One rule; what keeps it from being looked at keeps no other, and closes none of its alerts."""
    try:
        with transaction.atomic():
            _apply(rule, facts(rule, now), now)
    except DatabaseError as error:
        log.warning("the rule %r cannot be looked at: %s", rule.name, str(error).strip())
        return f"{rule.name}: {type(error).__name__}"
    return None


def _apply(rule: Rule, found: Iterable[Fact], now: datetime) -> None:
    opened = {alert.key: alert for alert in Alert.objects.filter(rule=rule, closed_at=None)}
    fresh = []
    for fact in found:
        alert = opened.pop(fact.key, None)
        if alert is None:
            fresh.append(_open(rule, fact, now))
        else:
            _go_on(rule, alert, fact, now)
    if len(fresh) > BURST:
        queue_together(fresh, rule, now)
    else:
        for alert in fresh:
            queue(alert, "firing", now)
    for alert in opened.values():
        if now - alert.seen_at >= timedelta(seconds=rule.settle_s):
            _close(alert, now, "it is no longer so")


def _open(rule: Rule, fact: Fact, now: datetime) -> Alert:
    return Alert.objects.create(
        rule=rule, rule_name=rule.name, condition=rule.condition, severity=rule.severity, key=fact.key,
        title=fact.title, text=fact.text, link=fact.link, count=fact.count, opened_at=now, seen_at=fact.at, said_at=now,
    )  # fmt: skip


def _go_on(rule: Rule, alert: Alert, fact: Fact, now: datetime) -> None:
    """The same is true still: one alert, however often it is found. What happened in all is never less than before."""
    alert.title, alert.text, alert.link = fact.title, fact.text, fact.link
    alert.seen_at, alert.count, alert.severity = fact.at, max(fact.count, alert.count), rule.severity
    said = alert.said_at or alert.opened_at
    if rule.repeat_s and now - said >= timedelta(seconds=rule.repeat_s):
        alert.said_at = now
        queue(alert, "repeat", now)
    alert.save()


def _close(alert: Alert, now: datetime, ending: str, *, silently: bool = False) -> None:
    alert.closed_at, alert.ending = now, ending
    alert.save()
    if not silently:
        queue(alert, "resolved", now)


def _close_orphans(now: datetime) -> None:
    """Alerts whose rule was switched off or deleted."""
    for alert in Alert.objects.filter(closed_at=None).exclude(rule__enabled=True)[:500]:
        _close(alert, now, "its rule was switched off", silently=True)


def _forget(now: datetime) -> None:
    old = Alert.objects.filter(closed_at__lt=now - KEEP).values_list("pk", flat=True)[:200]
    Alert.objects.filter(pk__in=list(old)).delete()

"""Messages: made with the alert that they speak of, kept until delivered, and written as a channel wants them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from .conditions import Severity
from .models import Alert, Channel, Format, Notification, Rule
from .outbound import check

LISTED: Final = 20  # alerts that one message names

_NTFY_PRIORITY: Final = {Severity.CRITICAL.value: 5, Severity.WARNING.value: 3}
_MARKS: Final = {"resolved": "white_check_mark", "test": "bell"}
_SLACK_MARKS: Final = {"resolved": ":white_check_mark:", "test": ":bell:"}


@dataclass(frozen=True, slots=True)
class Written:
    """What is sent, and where to."""

    url: str
    body: bytes
    headers: dict[str, str]


def queue(alert: Alert, event: str, now: datetime) -> None:
    """Make the messages of an event, one a channel. The end is told to those who were told the beginning."""
    _queue(alert, event, body_of(alert, event), now)


def queue_together(alerts: Sequence[Alert], rule: Rule, now: datetime) -> None:
    """One message for many alerts of a rule that opened at once."""
    titles = [alert.title for alert in alerts[:LISTED]]
    more = [f"and {len(alerts) - LISTED} more"] if len(alerts) > LISTED else []
    body = body_of(alerts[0], "firing")
    body |= {"title": f"{len(alerts)} alerts: {rule.name}", "text": "\n".join(titles + more), "link": "/alerts/"}
    _queue(alerts[0], "firing", body, now)


def body_of(alert: Alert, event: str) -> dict[str, Any]:
    """What a message says, before it is written in a channel's format."""
    return {
        "event": event, "alert": alert.pk, "rule": alert.rule_name, "condition": alert.condition,
        "severity": alert.severity, "key": alert.key, "title": alert.title, "text": alert.text, "link": alert.link,
        "count": alert.count, "opened_at": alert.opened_at.isoformat(), "seen_at": alert.seen_at.isoformat(),
        "closed_at": alert.closed_at.isoformat() if alert.closed_at else None,
    }  # fmt: skip


def _queue(alert: Alert, event: str, body: dict[str, Any], now: datetime) -> None:
    told = set(alert.notifications.values_list("channel_id", flat=True)) if event == "resolved" else None
    Notification.objects.bulk_create(
        Notification(alert=alert, channel=channel, event=event, body=body, created_at=now, next_at=now)
        for channel in subscribed(alert.rule_id)
        if told is None or (channel.recoveries and channel.pk in told)
    )


def subscribed(rule_id: int | None) -> list[Channel]:
    """The channels in use that want a rule's alerts: those that name it, and those that name none."""
    channels = Channel.objects.filter(enabled=True).prefetch_related("rules")
    return [one for one in channels if not (ids := [rule.pk for rule in one.rules.all()]) or rule_id in ids]


def write(channel: Channel, message_id: str, body: dict[str, Any]) -> Written:
    """The message in the channel's format. `message_id` is the same however often it is sent. Raises ChannelInvalid."""
    parts = check(channel.url)
    headers = {"Content-Type": "application/json", "User-Agent": "cuzk"}
    if channel.token:
        headers["Authorization"] = f"Bearer {channel.token}"
    content = _FORMATS[Format(channel.format)](message_id, body)
    if channel.format == Format.NTFY:
        folder, _, topic = parts.path.rpartition("/")
        content, parts = {"topic": topic, **content}, parts._replace(path=f"{folder}/")
    return Written(parts.geturl(), json.dumps(content, ensure_ascii=False).encode(), headers)


def _webhook(message_id: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": message_id, "source": "cuzk", **body, "url": _url(body)}


def _ntfy(_message_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """ntfy's JSON, without the topic."""
    content = {
        "title": _title(body), "message": body["text"] or body["title"], "click": _url(body) or None,
        "priority": 3 if body["event"] in ("resolved", "test") else _NTFY_PRIORITY.get(body["severity"], 3),
        "tags": [_MARKS.get(body["event"], "rotating_light" if body["severity"] == "critical" else "warning")],
    }  # fmt: skip
    return {name: value for name, value in content.items() if value is not None}


def _slack(_message_id: str, body: dict[str, Any]) -> dict[str, Any]:
    mark = _SLACK_MARKS.get(body["event"], ":rotating_light:" if body["severity"] == "critical" else ":warning:")
    lines = [f"{mark} *{_escaped(_title(body))}*", *([_escaped(body["text"])] if body["text"] else [])]
    if url := _url(body):
        lines.append(f"<{url}|open>")
    return {"text": "\n".join(lines), "unfurl_links": False}


def _title(body: dict[str, Any]) -> str:
    return f"{'Over: ' if body['event'] == 'resolved' else ''}{body['title']}"


def _escaped(text: str) -> str:
    """Slack reads three characters as its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _url(body: dict[str, Any]) -> str:
    """Where to read on; nothing when CUZK_SITE_URL is not set."""
    return f"{settings.SITE_URL}{body['link']}" if settings.SITE_URL and body["link"] else ""


_FORMATS: Final = {Format.WEBHOOK: _webhook, Format.NTFY: _ntfy, Format.SLACK: _slack}

"""Messages on their way: claimed by one process each, sent, and sent again later when that failed.

A message arrives at least once: a process that dies after it was sent leaves it to be sent again after CLAIM_S. An
alert's messages reach a channel in order.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from django.db import connection, connections, transaction
from django.db.models.functions import Now

from prover.errors import CuzkError

from .messages import write
from .models import Channel, Notification
from .outbound import post

log = logging.getLogger(__name__)

CLAIM_S: Final = 120  # that a claimed message is left to its claimer
BACKOFF_S: Final = (5, 15, 60, 300, 900, 3600, 3600, 3600)  # before each further attempt; then it is given up
AT_ONCE: Final = 20
SENDERS: Final = 4  # channels at a time: one that is slow keeps no other waiting

_CLAIM: Final = """UPDATE alert_notification SET attempts = attempts + 1, next_at = now() + make_interval(secs => %s)
    WHERE id IN (
        SELECT n.id FROM alert_notification n JOIN alert_channel c ON c.id = n.channel_id AND c.enabled
        WHERE n.delivered_at IS NULL AND n.gave_up_at IS NULL AND n.next_at <= now()
            AND NOT EXISTS (SELECT FROM alert_notification e WHERE e.alert_id = n.alert_id
                AND e.channel_id = n.channel_id AND e.created_at < n.created_at
                AND e.delivered_at IS NULL AND e.gave_up_at IS NULL)
        ORDER BY n.created_at LIMIT %s FOR UPDATE OF n SKIP LOCKED)
    RETURNING id"""
_EXPIRE: Final = """UPDATE alert_notification SET gave_up_at = now(), error = 'its channel was switched off'
    WHERE delivered_at IS NULL AND gave_up_at IS NULL AND next_at < now() - interval '1 hour'
        AND channel_id IN (SELECT id FROM alert_channel WHERE NOT enabled)"""


def deliver() -> int:
    """Send what is due; how many messages were tried."""
    claimed = _claim()
    by_channel: dict[int, list[Notification]] = {}
    for message in sorted(claimed, key=lambda one: one.created_at):
        by_channel.setdefault(message.channel_id, []).append(message)
    if by_channel:
        with ThreadPoolExecutor(SENDERS, "alert sender") as senders:
            list(senders.map(_send_all, by_channel.values()))
    return len(claimed)


def _claim() -> list[Notification]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_EXPIRE)
        cursor.execute(_CLAIM, [CLAIM_S, AT_ONCE])
        ids = [key for (key,) in cursor.fetchall()]
    return list(Notification.objects.select_related("channel").filter(pk__in=ids))


def _send_all(messages: Iterable[Notification]) -> None:
    """One channel's messages, in a thread of their own; after a failure the others are not tried now."""
    try:
        failed = ""
        for message in messages:
            failed = failed or _try(message)
            _record(message, failed)
    except Exception:
        log.exception("messages could not be recorded; they will be sent again")
    finally:
        connections.close_all()


def _try(message: Notification) -> str:
    """Send one; what went wrong, without secrets."""
    try:
        send(message.channel, str(message.pk), message.body)
    except CuzkError as error:
        log.warning("channel %r: %s [%s]", message.channel.name, error, error.code)
        return f"{error} [{error.code}]"
    return ""


def _record(message: Notification, failed: str) -> None:
    mine = Notification.objects.filter(pk=message.pk, attempts=message.attempts)
    if not failed:
        mine.update(delivered_at=Now(), error="")
    elif message.attempts > len(BACKOFF_S):
        mine.update(gave_up_at=Now(), error=failed)
    else:
        mine.update(error=failed, next_at=_later(BACKOFF_S[message.attempts - 1]))


def _later(seconds: int) -> object:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() + make_interval(secs => %s)", [seconds])
        (at,) = cursor.fetchone()
    return at


def send(channel: Channel, message_id: str, body: dict[str, Any]) -> None:
    """Send a message now. Raises the errors of `outbound.post`."""
    written = write(channel, message_id, body)
    post(written.url, written.body, written.headers)


def test(channel: Channel) -> None:
    """Send a message that says that it is a test. Raises the errors of `outbound.post`."""
    body: dict[str, Any] = {
        "event": "test", "alert": None, "rule": "", "condition": "", "severity": "warning", "key": "",
        "title": f"Test of the channel {channel.name!r}", "text": "If you read this, alerts of cuzk reach you here.",
        "link": "/alerts/", "count": 1, "opened_at": None, "seen_at": None, "closed_at": None,
    }  # fmt: skip
    send(channel, str(uuid.uuid4()), body)

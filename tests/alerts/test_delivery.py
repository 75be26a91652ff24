"""Messages reach their channels in the channel's format, in order, again after failures, and no log has a secret."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from cuzk_web.alerts import delivery
from cuzk_web.alerts.messages import queue
from cuzk_web.alerts.models import Alert, Channel, Notification

from .receiver import Receiver

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


class Inline:
    """An executor whose threads are the caller's: the rows of a test are seen by its own connection alone."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, work: Any, items: Iterable[Any]) -> list[Any]:
        return [work(item) for item in items]


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "ThreadPoolExecutor", Inline)
    monkeypatch.setattr(delivery.connections, "close_all", lambda: None)


def alert(**fields: Any) -> Alert:
    now = timezone.now()
    words = {"title": "Prover <alpha> is lost", "text": "lease_expired & gone", "severity": "critical", "link": "/"}
    more = {"rule_name": "Lost prover", "condition": "lost_prover", "key": "a", "opened_at": now, "seen_at": now}
    return Alert.objects.create(**(words | more | fields))


def channel(url: str, **fields: Any) -> Channel:
    return Channel.objects.create(**({"name": "ops", "url": url} | fields))


def queued(event: str = "firing", **fields: Any) -> Alert:
    made = alert(**fields)
    queue(made, event, timezone.now() - timedelta(seconds=5))
    return made


def due() -> None:
    Notification.objects.update(next_at=timezone.now() - timedelta(seconds=1))


def test_a_webhook_gets_json_with_an_id_and_the_token(receiver: Receiver, settings: Any) -> None:
    settings.SITE_URL = "https://cuzk.example"
    channel(receiver.url, token="top-secret")
    made = queued()
    assert delivery.deliver() == 1
    (got,) = receiver.received
    message = Notification.objects.get()
    assert got.path == "/hook/secret-part" and got.headers["Authorization"] == "Bearer top-secret"
    told = {name: got.body[name] for name in ("id", "event", "alert", "severity", "title", "count", "url")}
    assert told == {
        "id": str(message.pk), "event": "firing", "alert": made.pk, "severity": "critical",
        "title": "Prover <alpha> is lost", "count": 1, "url": "https://cuzk.example/",
    }  # fmt: skip
    assert message.delivered_at is not None and message.error == ""
    assert delivery.deliver() == 0


def test_slack_gets_text_that_it_cannot_take_for_its_own(receiver: Receiver) -> None:
    channel(receiver.url, format="slack")
    queued()
    delivery.deliver()
    assert receiver.received[0].body == {
        "text": ":rotating_light: *Prover &lt;alpha&gt; is lost*\nlease_expired &amp; gone", "unfurl_links": False,
    }  # fmt: skip


def test_ntfy_gets_its_topic_and_a_priority(receiver: Receiver) -> None:
    channel(receiver.url, format="ntfy")
    queued()
    queued("resolved", key="b")  # nobody was told of its beginning
    delivery.deliver()
    (got,) = receiver.received
    assert got.path == "/hook/" and got.body == {
        "topic": "secret-part", "title": "Prover <alpha> is lost", "message": "lease_expired & gone", "priority": 5,
        "tags": ["rotating_light"],
    }  # fmt: skip


def test_what_fails_is_sent_again_with_growing_pauses_and_then_given_up(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    channel(receiver.url, token="top-secret")
    queued()
    receiver.answers = [500]
    pauses = []
    with caplog.at_level(logging.DEBUG):
        for _ in range(len(delivery.BACKOFF_S) + 3):
            delivery.deliver()
            message = Notification.objects.get()
            pauses.append(round((message.next_at - timezone.now()).total_seconds(), -1))
            due()
    assert len(receiver.received) == len(delivery.BACKOFF_S) + 1
    assert pauses[3:6] == [300, 900, 3600] and message.gave_up_at is not None
    assert message.error == "127.0.0.1: it answered 500 [channel_refused]"
    assert len({got.body["id"] for got in receiver.received}) == 1  # who takes it twice can tell
    assert not any(word in caplog.text for word in ("secret-part", "top-secret"))


def test_the_end_is_not_told_before_the_beginning(receiver: Receiver) -> None:
    channel(receiver.url)
    made = queued()
    receiver.answers = [500, 200]
    delivery.deliver()
    queue(made, "resolved", timezone.now())
    delivery.deliver()
    assert [got.body["event"] for got in receiver.received] == ["firing"]
    due()
    delivery.deliver()
    due()
    delivery.deliver()
    assert [got.body["event"] for got in receiver.received] == ["firing", "firing", "resolved"]


def test_a_claimed_message_is_left_to_its_claimer_for_a_while(receiver: Receiver) -> None:
    channel(receiver.url)
    queued()
    assert len(delivery._claim()) == 1  # and the process dies
    assert delivery.deliver() == 0
    due()
    assert delivery.deliver() == 1 and len(receiver.received) == 1


def test_a_channel_that_fails_keeps_no_other_waiting(receiver: Receiver) -> None:
    channel("http://10.255.255.1/", name="private")
    channel(receiver.url, name="good")
    queued()
    assert delivery.deliver() == 2 and len(receiver.received) == 1
    failed = Notification.objects.get(channel__name="private")
    assert "[address_refused]" in failed.error and failed.delivered_at is None


def test_messages_of_a_channel_that_was_switched_off_wait_and_expire(receiver: Receiver) -> None:
    made = channel(receiver.url)
    queued()
    Channel.objects.update(enabled=False)
    assert delivery.deliver() == 0
    Notification.objects.update(next_at=timezone.now() - timedelta(hours=2))
    assert delivery.deliver() == 0 and Notification.objects.get().gave_up_at is not None
    assert made.name == "ops" and not receiver.received


def test_a_test_message_says_so(receiver: Receiver) -> None:
    delivery.test(channel(receiver.url))
    assert receiver.received[0].body["event"] == "test" and not Notification.objects.exists()

"""The list of alerts and their administration: who may, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from cuzk_web.alerts.models import Alert, Channel, Evaluation, Notification, Rule
from tests.web.conftest import Login

from .receiver import Receiver

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

SECRETS = ("hook-secret", "bearer-secret")


def alert(closed: bool = False, **fields: Any) -> Alert:
    now = timezone.now()
    words = {"title": "<script>alert(1)</script>", "severity": "critical", "rule_name": "Lost prover", "key": "a"}
    more = {"condition": "lost_prover", "opened_at": now, "seen_at": now, "closed_at": now if closed else None}
    return Alert.objects.create(**(words | more | fields))


@pytest.fixture
def channel() -> Channel:
    return Channel.objects.create(name="ops", url="https://chat.example/hook-secret", token="bearer-secret")


def shown(browser: Client, query: str = "") -> str:
    answer = browser.get(reverse("alerts") + query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 200), ("olga", 200), ("ada", 200)])
def test_who_may_read_the_list(login: Login, name: str, status: int) -> None:
    assert login(name).get(reverse("alerts")).status_code == status


def test_open_ones_stand_first_with_what_was_sent(login: Login, channel: Channel) -> None:
    made, now = alert(), timezone.now()
    alert(closed=True, title="an old one", link="/jobs/x/")
    for event, more in {
        "firing": {"delivered_at": now},
        "repeat": {"gave_up_at": now, "error": "it answered 500"},
    }.items():
        Notification.objects.create(
            alert=made, channel=channel, event=event, body={}, created_at=now, next_at=now, **more
        )
    text = shown(login("vera"))
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert text.index("&lt;script&gt;alert") < text.index("an old one")
    assert re.search(r'id="open-alerts" data-severity="critical">1<', text)
    assert "given up" in text and "it answered 500" in text and "delivered" in text
    assert not any(secret in text for secret in SECRETS)


def test_a_page_without_anything_says_so_and_who_looks(login: Login) -> None:
    text = shown(login("vera"))
    assert "Nothing is wrong" in text and "Nobody looks at the rules" in text and "No channel" in text
    Evaluation.objects.create(at=timezone.now(), error="Anomalies: DataError")
    text = shown(login("vera"))
    assert "Nobody looks" not in text and "Anomalies: DataError" in text
    Evaluation.objects.update(at=timezone.now() - timedelta(seconds=60))
    assert "Nobody looks" in shown(login("vera"))


def test_pages_of_what_is_over(login: Login) -> None:
    for number in range(52):
        alert(closed=True, title=f"title{number:02d}", severity="warning" if number % 2 else "critical")
    text = shown(login("vera"))
    assert "title51" in text and "title01" not in text
    older = re.search(r'rel="next" href="(\?[^"]+)"', text)
    assert older is not None
    text = shown(login("vera"), older[1])
    assert "title01" in text and "title51" not in text and "Nothing is wrong" not in text
    text = shown(login("vera"), "?severity=warning")
    assert "title51" in text and "title50" not in text


@pytest.mark.parametrize(
    "query",
    ["condition=x", "severity=%00", "before=-1", "before=x", "before=99999999999999999999", "before=٣", "sql=1"],
)
def test_a_filter_that_makes_no_sense_is_refused(login: Login, query: str) -> None:
    answer = login("vera").get(f"{reverse('alerts')}?{query}")
    assert answer.status_code == 400 and query.partition("=")[0] in answer.content.decode()


# -- administration ----------------------------------------------------------------------------------------------------

FORM = {"name": "new", "format": "webhook", "url": "https://chat.example/hook-secret", "enabled": "on", "token": ""}


def admin(page: str, *args: Any) -> str:
    return reverse(f"admin:alerts_{page}", args=args)


@pytest.mark.parametrize(
    ("name", "rules", "channels", "changes"), [("vera", 302, 302, 302), ("olga", 200, 403, 403), ("ada", 200, 200, 200)]
)
def test_operators_read_rules_and_administrators_change_them(
    login: Login, channel: Channel, name: str, rules: int, channels: int, changes: int
) -> None:
    browser, pk = login(name), Rule.objects.first().pk  # type: ignore[union-attr]
    assert browser.get(admin("rule_changelist")).status_code == rules
    assert browser.get(admin("channel_changelist")).status_code == channels
    assert browser.get(admin("rule_add")).status_code == changes
    assert browser.post(admin("channel_test", channel.pk)).status_code in ((302,) if name != "olga" else (403,))
    answer = browser.post(admin("rule_change", pk), {"name": "hijacked"})
    assert answer.status_code in (302, 403) or name == "ada"
    assert not Rule.objects.filter(name="hijacked").exists()


def test_no_page_shows_an_address_or_a_token(login: Login, channel: Channel) -> None:
    browser = login("ada")
    urls = [admin("channel_changelist"), admin("channel_change", channel.pk), admin("channel_history", channel.pk)]
    for url in (*urls, admin("channel_delete", channel.pk), admin("rule_changelist"), reverse("alerts")):
        text = browser.get(url).content.decode()
        assert not any(secret in text for secret in SECRETS), url
    refused = browser.post(admin("channel_change", channel.pk), FORM | {"name": "", "token": "bearer-secret"})
    assert refused.status_code == 200 and not any(secret in refused.content.decode() for secret in SECRETS)


def test_secrets_that_are_left_empty_stay_and_a_token_can_go(login: Login, channel: Channel) -> None:
    browser, url = login("ada"), admin("channel_change", channel.pk)
    assert browser.post(url, FORM | {"url": ""}).status_code == 302
    channel.refresh_from_db()
    assert (channel.name, channel.url, channel.token) == ("new", "https://chat.example/hook-secret", "bearer-secret")
    assert browser.post(url, FORM | {"no_token": "on"}).status_code == 302
    channel.refresh_from_db()
    assert channel.token == ""
    logged = " ".join(LogEntry.objects.values_list("change_message", flat=True))
    assert "Address" in logged and not any(secret in logged for secret in SECRETS)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"url": "ftp://a/"}, "channel_invalid"), ({"url": ""}, "An address is needed"),
        ({"url": "http://u:p@a/"}, "channel_invalid"), ({"token": "a b"}, "channel_invalid"),
        ({"format": "ntfy", "url": "https://ntfy.sh/"}, "ends with the topic"), ({"format": "fax"}, "Select a valid"),
    ],
)  # fmt: skip
def test_a_channel_that_cannot_work_is_refused(login: Login, given: dict[str, str], word: str) -> None:
    answer = login("ada").post(admin("channel_add"), FORM | given)
    assert answer.status_code == 200 and word in answer.content.decode() and not Channel.objects.exists()


@pytest.mark.parametrize(("field", "value"), [("settle_s", "1"), ("repeat_s", "-1"), ("seconds", "0"), ("kind", "x")])
def test_a_rule_out_of_its_limits_is_refused(login: Login, field: str, value: str) -> None:
    form = {"name": "mine", "condition": "anomaly", "severity": "warning", "settle_s": "30", "repeat_s": "0"}
    assert login("ada").post(admin("rule_add"), form | {field: value}).status_code == 200
    assert not Rule.objects.filter(name="mine").exists()
    assert login("ada").post(admin("rule_add"), form).status_code == 302
    assert Rule.objects.filter(name="mine").exists()


def test_the_button_tries_a_channel_and_says_what_came_of_it(login: Login, receiver: Receiver) -> None:
    made = Channel.objects.create(name="ops", url=receiver.url)
    browser = login("ada")
    page = browser.get(admin("channel_change", made.pk)).content.decode()
    assert "Send a test message" in page and admin("channel_test", made.pk) in page
    answer = browser.post(admin("channel_test", made.pk), follow=True)
    assert "Ops: the test message was delivered." in answer.content.decode()
    receiver.answers = [403]
    answer = browser.post(admin("channel_test", made.pk), follow=True)
    assert "it answered 403 (channel_refused)" in answer.content.decode()
    assert [got.body["event"] for got in receiver.received] == ["test", "test"]
    logged = [entry.change_message for entry in LogEntry.objects.order_by("id")]
    assert len(logged) == 2 and "delivered" in logged[0] and "403" in logged[1]
    assert browser.get(admin("channel_test", made.pk)).status_code == 405
    assert browser.post(admin("channel_test", 999_999)).status_code == 404


def test_the_button_asks_for_a_token_against_forgery(login: Login, channel: Channel) -> None:
    browser = login("ada")
    browser.handler.enforce_csrf_checks = True
    assert browser.post(admin("channel_test", channel.pk)).status_code == 403

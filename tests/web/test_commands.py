"""What is asked of workers: who may, what is written, what is refused and why, by button and in the admin."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test import Client

from cuzk_web.fleet import commands
from cuzk_web.fleet.models import Command, Transition, Worker
from prover.states import Admin, offered

from .conftest import Login, person
from .facts import session, worker

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

JSON = {"HTTP_ACCEPT": "application/json"}
LIST = "/admin/fleet/worker/"


@pytest.mark.parametrize("action", commands.ACTIONS)
@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 403), ("olga", 202), ("ada", 202)])
def test_who_may(login: Login, name: str, status: int, action: str) -> None:
    one = worker(session(), admin=next(admin for admin in Admin if action in offered(admin)))
    assert login(name).post(f"/workers/{one.id}/{action}", **JSON).status_code == status
    assert Command.objects.count() == (status == 202)


def test_only_by_post_and_with_the_token(people) -> None:
    one = worker(session())
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people["olga"])
    assert browser.get(f"/workers/{one.id}/pause").status_code == 405
    assert browser.post(f"/workers/{one.id}/pause").status_code == 403
    token = browser.get("/jobs/").cookies["csrftoken"].value
    assert browser.post(f"/workers/{one.id}/pause", HTTP_X_CSRFTOKEN=token, **JSON).status_code == 202


def test_it_writes_a_command_an_event_and_the_audit(login: Login, people) -> None:
    one = worker(session())
    answer = login("olga").post(f"/workers/{one.id}/drain", **JSON).json()
    made = Command.objects.get(pk=answer["id"])
    assert (made.action, made.target, made.prover, made.state) == ("drain", one.id, "alpha", "pending")
    assert (made.requested_by, made.requested_by_name) == (people["olga"], "olga")
    event = Transition.objects.get(entity="command", entity_id=str(made.id))
    assert event.new == "pending"
    assert event.detail == {"action": "drain", "target": one.id, "by": "olga", "kind": "worker"}
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.change_message) == (people["olga"], one.id, "asked to drain")
    one.refresh_from_db()
    assert one.admin == "enabled"  # only the prover moves a worker


def test_a_pending_one_is_not_doubled(login: Login) -> None:
    one = worker(session())
    first = login("olga").post(f"/workers/{one.id}/pause", **JSON).json()
    second = login("ada").post(f"/workers/{one.id}/pause", **JSON).json()
    assert first["id"] == second["id"] and (first["created"], second["created"]) == (True, False)
    Command.objects.update(state="done")
    assert login("olga").post(f"/workers/{one.id}/pause", **JSON).json()["id"] != first["id"]


@pytest.mark.parametrize(
    ("wish", "action", "reason"),
    [
        ("paused", "pause", "it is paused already"),
        ("enabled", "resume", "it is enabled already"),
        ("draining", "drain", "it is draining already"),
        ("disabled", "disable", "it is disabled already"),
        ("disabled", "resume", "it is disabled; from there one can enable or restart it"),
        ("paused", "enable", "it is paused; from there one can resume or drain or disable or restart it"),
        ("quarantined", "pause", "it is quarantined; from there one can resume or disable or restart it"),
        ("quarantined", "drain", "it is quarantined; from there one can resume or disable or restart it"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(login: Login, wish: str, action: str, reason: str) -> None:
    one = worker(session(), admin=wish)
    answer = login("olga").post(f"/workers/{one.id}/{action}", **JSON)
    assert answer.status_code == 409
    assert answer.json()["code"] == "command_refused" and reason in answer.json()["message"]
    assert not Command.objects.exists() and not LogEntry.objects.exists()


@pytest.mark.parametrize(("wish", "action"), [(wish, action) for wish in Admin for action in offered(wish)])
def test_what_makes_sense_is_asked(login: Login, wish: str, action: str) -> None:
    assert login("olga").post(f"/workers/{worker(session(), admin=wish).id}/{action}", **JSON).status_code == 202


def test_the_admin_offers_every_action(login: Login) -> None:
    worker(session())
    page = login("olga").get(LIST).content.decode()
    assert all(f'<option value="{action}">' in page for action in commands.ACTIONS)


def test_nobody_is_asked_who_cannot_answer(login: Login) -> None:
    past = datetime.now(UTC) - timedelta(seconds=30)
    silent = worker(session("silent", lease_until=past))
    stopped = worker(session("stopped"), state="stopped")
    for one in (silent, stopped):
        answer = login("olga").post(f"/workers/{one.id}/pause", **JSON)
        assert answer.status_code == 409 and "not online" in answer.json()["message"]


@pytest.mark.parametrize("worker_id", ["no/such/worker", "<b>x</b>", "%00", "a" * 2000])
def test_an_unknown_worker(login: Login, worker_id: str) -> None:
    answer = login("olga").post(f"/workers/{worker_id}/pause", **JSON)
    assert answer.status_code == 404


def test_an_unknown_action_is_no_address(login: Login) -> None:
    assert login("olga").post(f"/workers/{worker(session()).id}/explode", **JSON).status_code == 404


@pytest.mark.parametrize(
    ("back", "expected"), [("/jobs/", "/jobs/"), ("https://evil.example/", "/"), ("//evil.example", "/"), ("", "/")]
)
def test_a_form_comes_back_to_its_page(login: Login, back: str, expected: str) -> None:
    one = worker(session())
    browser = login("olga")
    assert browser.post(f"/workers/{one.id}/pause", {"next": back})["Location"] == expected
    assert "Asked alpha/0/0 to pause" in browser.get("/jobs/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_parallel_clicks_make_one_command() -> None:
    olga, one = person("olga"), worker(session())

    def click(_: int) -> bool:
        try:
            return commands.ask(olga, one.id, "pause").created
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(click, range(12))) == [False] * 11 + [True]
    assert Command.objects.count() == 1


# -- in the admin -----------------------------------------------------------------------------------------------------


def act(browser: Client, action: str, *workers: Worker, **more: str):
    fields = [("action", action), *(("_selected_action", one.pk) for one in workers), *more.items()]
    return browser.post(LIST, urlencode(fields), "application/x-www-form-urlencoded", follow=True)


@pytest.mark.parametrize("name", ["olga", "ada"])
def test_admin_pauses_several(login: Login, name: str) -> None:
    of = session()
    answer = act(login(name), "pause", worker(of), worker(of, sub=1))
    assert "Asked W0 (alpha/0/0) to pause." in answer.content.decode()
    assert set(Command.objects.values_list("target", flat=True)) == {"alpha/0/0", "alpha/0/1"}


@pytest.mark.parametrize("name", ["", "sam", "vera"])
def test_admin_is_closed_to_others(login: Login, name: str) -> None:
    act(login(name), "pause", worker(session()))
    assert not Command.objects.exists()


def test_admin_asks_before_it_drains(login: Login) -> None:
    one, browser = worker(session()), login("olga")
    page = act(browser, "drain", one)
    assert "Drain 1 worker?" in page.content.decode() and not Command.objects.exists()
    act(browser, "drain", one, confirmed="1")
    assert Command.objects.get().action == "drain"


def test_admin_shows_refusals_and_outcomes(login: Login) -> None:
    one, browser = worker(session(), admin="paused"), login("olga")
    assert "Refused: W0: it is paused already (command_refused)" in act(browser, "pause", one).content.decode()
    act(browser, "resume", one)
    Command.objects.update(state="refused", outcome="the device is gone <b>now</b>", answered_at=datetime.now(UTC))
    for page in (LIST, "/admin/fleet/command/"):
        text = browser.get(page).content.decode()
        assert "the device is gone &lt;b&gt;now&lt;/b&gt;" in text and 'data-state="refused"' in text


def test_admin_shows_a_silent_prover_as_lost(login: Login) -> None:
    worker(session(lease_until=datetime.now(UTC) - timedelta(seconds=1)))
    text = login("olga").get(LIST).content.decode()
    assert 'data-state="lost"' in text and 'data-state="online"' not in text

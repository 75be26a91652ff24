"""Cancelling a job: who may, asked first, at once or by its prover, once however often, refused with the reason."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test import Client

from cuzk_web.fleet import commands
from cuzk_web.fleet.commands import Cancelled
from cuzk_web.fleet.models import Command, Counter, Job, Transition

from .conftest import Login, person
from .facts import START, job, session

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]


def url(of: Job) -> str:
    return f"/jobs/{of.id}/cancel"


def running(**fields) -> Job:
    return job(state="running", session=session(**fields), started_at=START)


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 403), ("olga", 302), ("ada", 302)])
def test_who_may(login: Login, name: str, status: int) -> None:
    one = job()
    assert login(name).get(url(one)).status_code == (200 if name in ("olga", "ada") else status)
    one.refresh_from_db()
    assert one.state == "queued"  # to be asked changes nothing
    answer = login(name).post(url(one))
    assert answer.status_code == status
    one.refresh_from_db()
    assert one.state == ("cancelled" if name in ("olga", "ada") else "queued")


@pytest.mark.parametrize(("name", "offered"), [("vera", False), ("olga", True)])
def test_the_button_is_there_for_who_may_and_while_the_job_is_open(login: Login, name: str, offered: bool) -> None:
    one = job()
    assert (url(one) in login(name).get(f"/jobs/{one.id}/").content.decode()) == offered
    over = job(state="done", ended_at=START)
    assert url(over) not in login(name).get(f"/jobs/{over.id}/").content.decode()


def test_not_without_the_token(people) -> None:
    one, browser = job(), Client(enforce_csrf_checks=True)
    browser.force_login(people["olga"])
    assert browser.post(url(one)).status_code == 403
    token = browser.get(url(one)).cookies["csrftoken"].value
    assert browser.post(url(one), {"csrfmiddlewaretoken": token}).status_code == 302


def test_a_waiting_job_ends_at_once_with_its_event_and_the_audit(login: Login, people) -> None:
    one, browser = job(), login("olga")
    assert browser.post(url(one))["Location"] == f"/jobs/{one.id}/"
    one.refresh_from_db()
    assert one.state == "cancelled" and one.ended_at is not None
    event = Transition.objects.get(job=one.id, new="cancelled")
    assert event.detail["by"] == "olga"
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_repr, entry.change_message) == (
        people["olga"], f"job {one.number}", "asked to cancel",
    )  # fmt: skip
    assert "Cancelled." in browser.get(f"/jobs/{one.id}/").content.decode()
    again = browser.post(url(one))
    assert again.status_code == 302
    assert "It was cancelled before." in browser.get(f"/jobs/{one.id}/").content.decode()
    assert (Counter.objects.get(state="cancelled").count, LogEntry.objects.count()) == (1, 1)


def test_a_running_job_is_its_provers_to_cancel(login: Login) -> None:
    one, browser = running(), login("olga")
    assert browser.post(url(one)).status_code == 302
    assert login("ada").post(url(one)).status_code == 302
    made = Command.objects.get()
    assert (made.action, made.target, made.prover, made.state) == ("cancel", str(one.id), "alpha", "pending")
    assert (made.requested_by_name, LogEntry.objects.count()) == ("olga", 1)
    one.refresh_from_db()
    assert one.state == "running"  # only the prover moves it
    text = browser.get(f"/jobs/{one.id}/").content.decode()
    assert "its prover has not answered yet" in text
    Command.objects.update(state="refused", outcome="no such job is open <b>here</b>", answered_at=START)
    text = browser.get(f"/jobs/{one.id}/").content.decode()
    assert "no such job is open &lt;b&gt;here&lt;/b&gt;" in text
    browser.post(url(one))
    assert Command.objects.count() == 2  # a refusal is no reason not to ask again


@pytest.mark.parametrize("state", ["done", "failed"])
def test_a_job_that_has_ended_is_refused(login: Login, state: str) -> None:
    one = job(state=state, ended_at=START)
    answer = login("olga").post(url(one))
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "command_refused" in text and f"it is {state}" in text
    assert not LogEntry.objects.exists()


def test_nobody_is_asked_who_cannot_answer(login: Login) -> None:
    one = running(lease_until=datetime.now(UTC) - timedelta(seconds=1))
    answer = login("olga").post(url(one))
    assert answer.status_code == 409 and "not online" in answer.content.decode()
    assert not Command.objects.exists() and not LogEntry.objects.exists()


def test_an_unknown_job(login: Login) -> None:
    for ask in (login("olga").get, login("olga").post):
        assert ask(f"/jobs/{uuid.uuid4()}/cancel").status_code == 404


def test_hostile_labels_stay_text(login: Login) -> None:
    text = login("olga").get(url(job(request_id="<script>alert(1)</script>"))).content.decode()
    assert "<script>alert" not in text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", [False, True])
def test_parallel_clicks_cancel_once(held: bool) -> None:
    olga, one = person("olga"), running() if held else job()

    def click(_: int) -> Cancelled:
        try:
            return commands.cancel(olga, one.id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        outcomes = sorted(pool.map(click, range(12)))
    first, later = (Cancelled.ASKED, Cancelled.WAITING) if held else (Cancelled.AT_ONCE, Cancelled.BEFORE)
    assert sorted([first, *11 * [later]]) == outcomes
    assert (Command.objects.count(), LogEntry.objects.count()) == (1, 1)

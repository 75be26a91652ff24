"""What is asked of jobs beside their cancel: who may, what is written, what is refused, by button and in the admin."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from cuzk_web.fleet import commands
from cuzk_web.fleet.models import Command, Job, JobInput, Transition
from cuzk_web.history.actions import ACTIONS

from .conftest import Login
from .facts import START, job, session

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

JSON = {"HTTP_ACCEPT": "application/json"}
LIST = "/admin/fleet/job/"
FIELDS = {"priority": {"priority": "4"}, "deadline": {"deadline": "2126-11-30T08:00:00"}}
STATES = {"release": "held", "retry": "failed"}


def fit(action: str, **fields) -> Job:
    """A job that can be asked for it."""
    one = job(state=STATES.get(action, "queued"), ended_at=START if action == "retry" else None, **fields)
    JobInput.objects.create(job=one, request=b"request")
    return one


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 403), ("olga", 202), ("ada", 202)])
def test_who_may(login: Login, name: str, status: int, action: str) -> None:
    one = fit(action)
    answer = login(name).post(f"/jobs/{one.id}/{action}", FIELDS.get(action, {}), **JSON)
    assert answer.status_code == status
    assert Command.objects.count() == (status == 202) and LogEntry.objects.count() == (status == 202)


def test_only_by_post_and_with_the_token(people) -> None:
    one, browser = job(), Client(enforce_csrf_checks=True)
    browser.force_login(people["olga"])
    assert browser.get(f"/jobs/{one.id}/hold").status_code == 405
    assert browser.post(f"/jobs/{one.id}/hold").status_code == 403
    token = browser.get(f"/jobs/{one.id}/").context["csrf_token"]
    assert browser.post(f"/jobs/{one.id}/hold", {"csrfmiddlewaretoken": str(token)}).status_code == 302


def test_the_buttons_are_those_that_make_sense(login: Login) -> None:
    offered = {"queued": {"hold", "priority", "deadline"}, "held": {"release", "priority", "deadline"},
               "verifying": {"priority", "deadline"}, "failed": {"retry"}, "done": set()}  # fmt: skip
    for state, wanted in offered.items():
        one = job(state=state)
        for name, expected in (("olga", wanted), ("vera", set())):
            text = login(name).get(f"/jobs/{one.id}/").content.decode()
            assert {action for action in ACTIONS if f'action="/jobs/{one.id}/{action}"' in text} == expected, state


def test_a_waiting_job_is_changed_at_once_with_its_event_and_the_audit(login: Login, people) -> None:
    one, browser = job(priority=1), login("olga")
    browser.post(f"/jobs/{one.id}/priority", {"priority": "3"})
    browser.post(f"/jobs/{one.id}/deadline", {"deadline": "2126-11-30T08:00"})
    answer = browser.post(f"/jobs/{one.id}/hold", follow=True)
    assert "Held: no prover takes it until it is released." in answer.content.decode()
    one.refresh_from_db()
    assert (one.state, one.priority, one.deadline) == ("held", 3, datetime(2126, 11, 30, 8, tzinfo=UTC))
    made = list(Command.objects.order_by("requested_at").values_list("action", "state", "requested_by_name", "prover"))
    assert made == [(action, "done", "olga", "site") for action in ("priority", "deadline", "hold")]
    said = list(LogEntry.objects.order_by("pk").values_list("change_message", "user"))
    assert said[0] == ("asked to set priority 3", people["olga"].pk) and said[2][0] == "asked to hold"
    assert Transition.objects.get(job=one.id, new="held").detail["by"] == "olga"
    assert "high" in answer.content.decode() and "Priority</strong> high" in answer.content.decode()


def test_a_running_job_is_its_provers_to_change(login: Login) -> None:
    one, browser = job(state="running", session=session(), started_at=START), login("olga")
    answers = [browser.post(f"/jobs/{one.id}/priority", {"priority": str(p)}, **JSON).json() for p in (4, 4, 1)]
    assert [(answer["state"], answer["created"]) for answer in answers] == [
        ("pending", True), ("pending", False), ("pending", True),
    ]  # fmt: skip
    made = Command.objects.order_by("requested_at")
    assert [(c.prover, c.target_kind, c.arguments) for c in made] == [
        ("alpha", "job", {"priority": 4}), ("alpha", "job", {"priority": 1}),
    ]  # fmt: skip
    one.refresh_from_db()
    assert one.priority == 3


def test_a_retry_leads_to_the_new_job(login: Login) -> None:
    one = fit("retry")
    answer = login("olga").post(f"/jobs/{one.id}/retry", follow=True)
    made = Job.objects.get(retry_of=one)
    assert answer.redirect_chain[-1][0] == f"/jobs/{made.id}/"
    assert (made.state, made.request_id, made.submitted_by) == ("queued", one.request_id, "olga")


@pytest.mark.parametrize(
    ("state", "action", "reason"),
    [("held", "hold", "it is held"), ("queued", "release", "it is queued"), ("done", "retry", "it is done"),
     ("assembling", "hold", "it is assembling"), ("cancelled", "priority", "it is cancelled")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_reason(login: Login, state: str, action: str, reason: str) -> None:
    one = job(state=state)
    answer = login("olga").post(f"/jobs/{one.id}/{action}", FIELDS.get(action, {}), **JSON)
    assert answer.status_code == 409
    assert answer.json()["code"] == "command_refused" and reason in answer.json()["message"]
    page = login("olga").post(f"/jobs/{one.id}/{action}", FIELDS.get(action, {}), follow=True).content.decode()
    assert f"Refused: job {one.number}: {reason}" in page
    assert not Command.objects.exists() and not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("action", "fields"),
    [("priority", {}), ("priority", {"priority": "5"}), ("priority", {"priority": "high"}),
     ("deadline", {"deadline": "soon"}), ("deadline", {"deadline": "99999-01-01"})],
)  # fmt: skip
def test_bad_input_names_its_field(login: Login, action: str, fields: dict[str, str]) -> None:
    answer = login("olga").post(f"/jobs/{job().id}/{action}", fields, **JSON)
    assert answer.status_code == 400 and answer.json()["field"] == action


def test_a_deadline_that_is_over(login: Login) -> None:
    answer = login("olga").post(f"/jobs/{job().id}/deadline", {"deadline": "2020-01-01"}, **JSON)
    assert answer.status_code == 409 and "that deadline is over" in answer.json()["message"]


def test_nobody_is_asked_who_cannot_answer_and_nothing_unknown(login: Login) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    one = job(state="running", session=session(lease_until=past), started_at=START)
    answer = login("olga").post(f"/jobs/{one.id}/hold", **JSON)
    assert answer.status_code == 409 and "not online" in answer.json()["message"]
    assert login("olga").post(f"/jobs/{uuid.uuid4()}/hold").status_code == 404
    assert login("olga").post(f"/jobs/{one.id}/explode").status_code == 404
    assert not Command.objects.exists()


def act(browser: Client, action: str, *jobs: Job, **more: str):
    fields = [("action", action), *(("_selected_action", one.pk) for one in jobs), *more.items()]
    return browser.post(LIST, urlencode(fields), "application/x-www-form-urlencoded", follow=True)


def test_the_admin_acts_on_several_and_asks_for_what_an_action_takes(login: Login) -> None:
    jobs, browser = [job(), job(), job(state="done")], login("olga")
    text = act(browser, "hold", *jobs).content.decode()
    assert all(f"Job {one.number}: held: no prover takes it" in text for one in jobs[:2])
    assert f"Refused: job {jobs[2].number}: it is done (command_refused)" in text
    assert 'name="priority"' in act(browser, "priority", *jobs).content.decode()
    act(browser, "priority", *jobs[:2], confirmed="1", priority="4")
    assert set(Job.objects.filter(state="held").values_list("priority", flat=True)) == {4}
    assert "Cancel: 1 job?" in act(browser, "cancel", jobs[0]).content.decode()
    act(browser, "cancel", jobs[0], confirmed="1")
    jobs[0].refresh_from_db()
    assert jobs[0].state == "cancelled"
    page = browser.get(LIST).content.decode()
    assert all(f'<option value="{action}">' in page for action in commands.OF_JOBS)


@pytest.mark.parametrize("name", ["", "sam", "vera"])
def test_the_admin_is_closed_to_others(login: Login, name: str) -> None:
    act(login(name), "hold", job())
    assert not Command.objects.exists()

"""The admin: prover-owned tables can be read and not changed, large tables are never counted, accounts are guarded."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from cuzk_web.accounts.roles import OPERATOR
from cuzk_web.fleet.models import Anomaly, Attempt, Command, Device, Holding, Job, Session, Worker

from .conftest import PASSWORD, Login
from .facts import START, attempt, done_job, job, session, worker

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

MODELS = [Session, Device, Worker, Holding, Job, Attempt, Anomaly, Command]


def url(model: type, page: str, *args: object) -> str:
    return reverse(f"admin:fleet_{model._meta.model_name}_{page}", args=args)


def some_rows() -> dict[type, object]:
    of = session()
    by, one = worker(of), done_job(request_id="<script>alert(1)</script>")
    made = attempt(one, by, {"pending": 0, "done": 1}, reason="<b>bold</b>")
    refused = {"code": "dup_end", "entity": "attempt", "entity_id": "<u>x", "old": "", "new": ""}
    odd = Anomaly.objects.create(session=of, at=START, **refused)
    asked = Command.objects.create(
        action="pause", target=by.id, prover="alpha", requested_by_name="<s>olga", requested_at=START, state_at=START
    )
    key = holding(of)
    return {
        Holding: key,
        Session: of,
        Device: by.device,
        Worker: by,
        Job: one,
        Attempt: made,
        Anomaly: odd,
        Command: asked,
    }


def holding(of: Session, name: str = "key:v28-window@0") -> Holding:
    detail = {"name": "<i>window-post 2KiB", "bytes": 7 << 20}
    return Holding.objects.create(id=f"alpha:{name}", session=of, state="ready", state_at=START, detail=detail)


def test_keys_are_asked_for_by_who_may_and_of_provers_that_can_answer(login: Login) -> None:
    of = session()
    keys = [holding(of), holding(of, "program:v28-window@0")]
    values = {"action": "evict", "_selected_action": [key.pk for key in keys]}
    page = login("olga").get(url(Holding, "changelist")).content.decode()
    assert all(f'<option value="{action}">' in page for action in ("preload", "evict", "pin", "unpin"))
    login("olga").post(url(Holding, "changelist"), values)
    (asked,) = Command.objects.all()
    assert (asked.target_kind, asked.action, asked.target, asked.prover) == (
        "key",
        "evict",
        "alpha:v28-window",
        "alpha",
    )
    assert LogEntry.objects.get().change_message == "asked to evict"
    Session.objects.filter(pk=of.pk).update(state="lost")
    answer = login("olga").post(url(Holding, "changelist"), values, follow=True).content.decode()
    assert "its prover is not online" in answer and "it is no key" in answer and Command.objects.count() == 1
    assert login("vera").post(url(Holding, "changelist"), values).status_code in (302, 403)
    assert Command.objects.count() == 1


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 302), ("olga", 200), ("ada", 200)])
def test_who_may_enter(login: Login, name: str, status: int) -> None:
    assert login(name).get("/admin/").status_code == status


@pytest.mark.parametrize("model", MODELS)
def test_tables_can_be_read_and_nothing_else(login: Login, model: type) -> None:
    row, browser = some_rows()[model], login("ada")
    listed = browser.get(url(model, "changelist"))
    shown = browser.get(url(model, "change", row.pk))
    assert listed.status_code == shown.status_code == 200
    for page in (listed, shown):
        for tag in ("<script>alert", "<b>bold", "<u>x", "<s>olga"):
            assert tag not in page.content.decode()
    assert 'name="_save"' not in shown.content.decode()
    assert browser.get(url(model, "add")).status_code == 403
    assert browser.post(url(model, "change", row.pk), {}).status_code == 403
    assert browser.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).exists()


def more_rows(numbers: range) -> None:
    """More of everything that a list shows."""
    for number in numbers:
        of = session(f"other{number}")
        by = worker(of)
        attempt(job(), by, {"pending": 0})
        Anomaly.objects.create(session=of, at=START, code="dup_end", entity="job", entity_id="x", old="", new="")
        for action in ("pause", "resume"):
            Command.objects.create(
                action=action, target=by.id, prover=of.prover, requested_by_name="olga", requested_at=START,
                state_at=START, state="done", outcome=f"as you wish {number}", answered_at=START,
            )  # fmt: skip
        user = User.objects.create_user(f"user{number}")
        LogEntry.objects.log_actions(user.pk, [by], CHANGE, change_message="asked to pause", single_object=True)


@pytest.mark.parametrize("model", [*MODELS, User, LogEntry])
def test_lists_never_count_and_ask_as_much_for_many_rows_as_for_few(login: Login, model: type) -> None:
    table, browser = model._meta.db_table, login("ada")

    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(f"/admin/{model._meta.app_label}/{model._meta.model_name}/").status_code == 200
        return [query["sql"] for query in captured]

    some_rows()
    more_rows(range(1))
    few = statements()
    more_rows(range(1, 20))
    many = statements()
    assert len(many) == len(few) < 20
    if model._meta.app_label == "fleet":
        assert not any("COUNT(" in sql and f'"{table}"' in sql for sql in many)


def test_every_model_of_the_fleet_in_the_admin_is_read_only(rf, people) -> None:
    request = rf.get("/")
    request.user = User.objects.create_superuser("root")
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == "fleet":
            assert not model_admin.has_add_permission(request)
            assert not model_admin.has_change_permission(request)
            assert not model_admin.has_delete_permission(request)


def test_an_administrator_makes_an_operator(login: Login) -> None:
    browser = login("ada")
    new = {"username": "oscar", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert browser.post("/admin/auth/user/add/", new).status_code == 302
    oscar = User.objects.get(username="oscar")
    role = Group.objects.get(name=OPERATOR)
    form = {"username": "oscar", "is_active": "on", "groups": role.pk, "is_superuser": "on"}
    assert browser.post(f"/admin/auth/user/{oscar.pk}/change/", form).status_code == 302
    oscar.refresh_from_db()
    assert list(oscar.groups.all()) == [role]
    assert not oscar.is_superuser  # ada is none, so she cannot make one


def test_an_administrator_cannot_touch_a_superuser(login: Login) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    browser = login("ada")
    assert browser.post(f"/admin/auth/user/{root.pk}/change/", {"username": "mine"}).status_code == 403
    change = {"password1": "another-good-one", "password2": "another-good-one", "usable_password": "true"}
    assert browser.post(f"/admin/auth/user/{root.pk}/password/", change).status_code == 403
    root.refresh_from_db()
    assert root.check_password(PASSWORD) and root.username == "root"


@pytest.mark.parametrize("page", ["/admin/auth/user/", "/admin/admin/logentry/"])
def test_accounts_and_audit_are_for_administrators(login: Login, page: str) -> None:
    assert login("ada").get(page).status_code == 200
    assert login("olga").get(page).status_code == 403


@pytest.mark.parametrize("query", ["q=x", "q=%27", "state=nonsense", "state=online&p=2", "p=99999", "p=x", "o=9.9"])
def test_odd_addresses_break_nothing(login: Login, query: str) -> None:
    some_rows()
    browser = login("ada")
    for model in MODELS:
        assert browser.get(f"{url(model, 'changelist')}?{query}", follow=True).status_code == 200, model


@pytest.mark.parametrize("query", ["q=%00", "state__exact=%00", "%00=1", "o=%00"])
def test_a_nul_is_a_bad_request_and_no_error_of_ours(login: Login, query: str) -> None:
    browser = login("ada")
    for model in MODELS:
        assert browser.get(f"{url(model, 'changelist')}?{query}", follow=True).status_code == 400, model
        assert browser.post(url(model, "changelist"), {"action": "a\0b"}).status_code == 400, model


def test_a_list_is_paged_without_a_count(login: Login) -> None:
    for number in range(1, 103):
        job(number=number)
    browser = login("ada")
    first = browser.get(url(Job, "changelist")).content.decode()
    last = browser.get(url(Job, "changelist") + "?p=3").content.decode()
    assert "?p=2" in first and "Older →" in first and "← Newer" not in first and "0 results" not in first
    assert "?p=2" in last and "← Newer" in last and "Older →" not in last
    assert ">1</a>" in last and ">102</a>" in first


def test_times_say_that_they_are_utc(login: Login) -> None:
    done_job()
    assert "2026-11-30 08:00:00 UTC" in login("ada").get(url(Job, "changelist")).content.decode()

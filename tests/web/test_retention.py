"""How long things are kept: administrators see and change it, within bounds, and it is written down who did."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry

from cuzk_web.history.models import Retention

from .conftest import Login, person

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

URL = "/admin/history/retention/"


def staff() -> None:
    for name in ("ada", "olga"):
        one = person(name)
        one.is_staff = True
        one.save()


def test_only_an_administrator_changes_it(login: Login) -> None:
    staff()
    assert login("olga").get(URL).status_code == 403
    assert login("olga").post(f"{URL}jobs/change/", {"days": 1}).status_code == 403
    ada = login("ada")
    assert "transitions" in ada.get(URL).content.decode()
    assert ada.post(f"{URL}jobs/change/", {"days": 500}).status_code == 302
    assert Retention.objects.get(name="jobs").days == 500
    assert LogEntry.objects.filter(user=person("ada"), object_id="jobs").exists()
    assert ada.get(f"{URL}add/").status_code == 403
    assert ada.post(f"{URL}jobs/delete/").status_code == 403


@pytest.mark.parametrize("days", ["0", "-3", "3651", "x", "", "1.5"])
def test_days_out_of_bounds_are_refused_at_the_form(login: Login, days: str) -> None:
    staff()
    answer = login("ada").post(f"{URL}jobs/change/", {"days": days})
    assert answer.status_code == 200 and "errorlist" in answer.content.decode()
    assert Retention.objects.get(name="jobs").days == 365


def test_a_moment_before_what_is_kept_is_refused(login: Login) -> None:
    Retention.objects.filter(name="transitions").update(reached="2026-11-01T00:00:00Z")
    for path in ("", "state"):
        answer = login("vera").get(f"/replay/{path}?at=2026-10-31T00:00")
        assert answer.status_code == 400 and "the log begins at 2026-11-01T00:00:00Z" in answer.content.decode()

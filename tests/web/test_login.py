"""Login is required everywhere, and the pages of one's own account work."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from .conftest import PASSWORD, Login

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

PAGES = ["history", "admin:index", "password_change"]


@pytest.mark.parametrize("name", PAGES)
def test_who_is_not_logged_in_is_sent_to_the_login(name: str) -> None:
    answer = Client().get(reverse(name), follow=True)
    target, status = answer.redirect_chain[-1]
    assert (target, status) == (f"{reverse('login')}?next={reverse(name)}", 302)
    assert "Log in" in answer.content.decode()


def test_good_credentials_lead_to_where_one_wanted_to_go() -> None:
    credentials = {"username": "vera", "password": PASSWORD, "next": reverse("history")}
    answer = Client().post(reverse("login"), credentials)
    assert (answer.status_code, answer["Location"]) == (302, reverse("history"))


def test_next_never_leads_to_another_site() -> None:
    credentials = {"username": "vera", "password": PASSWORD, "next": "https://evil.example/"}
    assert "evil" not in Client().post(reverse("login"), credentials)["Location"]


def test_wrong_password_says_so_and_no_more() -> None:
    wrong = Client().post(reverse("login"), {"username": "vera", "password": "wrong"})
    unknown = Client().post(reverse("login"), {"username": "nobody", "password": "wrong"})
    assert wrong.status_code == unknown.status_code == 200
    said = [list(answer.context["form"].non_field_errors()) for answer in (wrong, unknown)]
    assert len(said[0]) == 1 and said[0] == said[1]


def test_an_inactive_account_cannot_log_in_or_stay(people, login: Login) -> None:
    browser = login("vera")
    people["vera"].is_active = False
    people["vera"].save()
    assert browser.get(reverse("history")).status_code == 302
    assert Client().post(reverse("login"), {"username": "vera", "password": PASSWORD}).status_code == 200


def test_logout_is_by_post_alone(login: Login) -> None:
    browser = login("vera")
    assert browser.get(reverse("logout")).status_code == 405
    assert browser.get(reverse("history")).status_code == 200
    assert browser.post(reverse("logout")).status_code == 302
    assert browser.get(reverse("history")).status_code == 302


def test_password_change_ends_other_sessions(login: Login) -> None:
    here, elsewhere = login("vera"), login("vera")
    new = "a-much-better-secret"
    change = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert here.post(reverse("password_change"), change)["Location"] == reverse("password_changed")
    assert here.get(reverse("password_changed")).status_code == 200
    assert elsewhere.get(reverse("history")).status_code == 302


@pytest.mark.parametrize("new", ["short1!", "password1234"])
def test_weak_passwords_are_refused(login: Login, new: str) -> None:
    change = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    answer = login("vera").post(reverse("password_change"), change)
    assert answer.status_code == 200 and answer.context["form"].errors


def test_admin_has_no_login_of_its_own(login: Login) -> None:
    answer = Client().post("/admin/login/", {"username": "ada", "password": PASSWORD})
    assert answer["Location"].startswith(reverse("login"))
    assert login("vera").get("/admin/").status_code == 302
    assert login("vera").get("/admin/", follow=True).status_code == 403


@pytest.mark.parametrize("path", ["login", "logout", "password_change"])
def test_forms_need_their_token(people, path: str) -> None:
    browser = Client(enforce_csrf_checks=True)
    if path != "login":
        browser.force_login(people["vera"])
    answer = browser.post(reverse(path), {"username": "vera", "password": PASSWORD})
    assert answer.status_code == 403
    assert "sent from another site" in answer.content.decode()

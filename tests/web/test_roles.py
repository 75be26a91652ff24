"""Who may do what: each role's rights, and that a page without a rule is closed, not open."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from cuzk_web.accounts import roles

from .conftest import Login

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

RIGHTS = {
    roles.MAY_VIEW: {"vera", "olga", "ada"},
    roles.MAY_SUBMIT: {"olga", "ada"},
    roles.MAY_COMMAND: {"olga", "ada"},
    roles.MAY_READ_REQUESTS: {"olga", "ada"},
    "auth.add_user": {"ada"},
    "auth.change_user": {"ada"},
    "auth.delete_user": set(),  # accounts are deactivated: what they did stays theirs
    "fleet.change_worker": set(),
    "fleet.delete_job": set(),
}


@pytest.mark.parametrize("right", RIGHTS)
def test_rights(people: dict[str, User], right: str) -> None:
    assert {name for name, user in people.items() if roles.allowed(user, right)} == RIGHTS[right]


def test_an_account_without_a_role_sees_nothing_and_is_told_why(login: Login) -> None:
    answer = login("sam").get(reverse("history"))
    assert answer.status_code == 403
    assert "no role yet" in answer.content.decode()
    assert login("sam").get(reverse("password_change")).status_code == 200


def test_roles_survive_and_are_restored_by_a_migration() -> None:
    Group.objects.get(name=roles.VIEWER).permissions.clear()
    Group.objects.get(name=roles.OPERATOR).delete()
    call_command("migrate", verbosity=0)
    for role, wanted in roles.PERMISSIONS.items():
        held = Group.objects.get(name=role).permissions.values_list("content_type__app_label", "codename")
        assert {f"{app}.{codename}" for app, codename in held} == wanted


def test_every_page_but_the_listed_ones_asks_for_a_role() -> None:
    """A view that somebody adds is closed until it says otherwise; this list is what says otherwise."""
    open_to_all = {"login", "livez", "readyz"}
    open_to_accounts = {"logout", "password_change", "password_changed"}
    for pattern in patterns(get_resolver().url_patterns):
        exempt = not getattr(pattern.callback, "login_required", True)
        assert exempt == (pattern.name in open_to_all), pattern
        assert getattr(pattern.callback, "role_required", True) == (pattern.name not in open_to_accounts), pattern


def patterns(found: list[URLPattern | URLResolver]) -> list[URLPattern]:
    """All patterns but the admin's, whose site asks by itself."""
    flat = []
    for one in found:
        if isinstance(one, URLPattern):
            flat.append(one)
        elif one.app_name != "admin":
            flat += patterns(one.url_patterns)
    return flat


def test_the_guards_come_in_order() -> None:
    order = [name.rsplit(".", 1)[1] for name in settings.MIDDLEWARE]
    known = [order.index(n) for n in ("AuthenticationMiddleware", "LoginRequiredMiddleware", "RoleRequiredMiddleware")]
    assert known == sorted(known)
    for name in settings.MIDDLEWARE:
        module, attribute = name.rsplit(".", 1)
        assert hasattr(import_module(module), attribute)

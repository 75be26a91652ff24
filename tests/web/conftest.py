"""Three people and a stranger: ada administers, olga operates, vera views, sam has an account and no role."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection
from django.test import Client

from cuzk_web.accounts.roles import ADMIN, OPERATOR, VIEWER

PASSWORD = "correct-horse-battery"
ROLES = {"ada": ADMIN, "olga": OPERATOR, "vera": VIEWER, "sam": None}

Login = Callable[[str], Client]


def person(name: str) -> User:
    """The account of one of the people, made when it is not there."""
    user, created = get_user_model().objects.get_or_create(username=name, defaults={"is_staff": name == "ada"})
    if created:
        user.set_password(PASSWORD)
        user.save()
        if ROLES[name] is not None:
            user.groups.add(Group.objects.get(name=ROLES[name]))
    return user


class WebClient(Client):
    """A browser whose requests are answered with the rights of the web's database role, and no more."""

    def request(self, **request: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SET ROLE cuzk_web")
        try:
            return super().request(**request)
        finally:
            with suppress(DatabaseError), connection.cursor() as cursor:  # the transaction may have failed
                cursor.execute("RESET ROLE")


@pytest.fixture
def people(db: None) -> dict[str, User]:
    """All of them."""
    return {name: person(name) for name in ROLES}


@pytest.fixture
def login(db: None) -> Login:
    """`login("olga")` is a browser in which olga is logged in; `login("")` one in which nobody is."""

    def browser(name: str) -> Client:
        client = WebClient()
        if name:
            client.force_login(person(name))
        return client

    return browser

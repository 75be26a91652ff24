"""Logins are throttled by address and by account, in the database, so that several processes count together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from django.db.models import F
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse

from cuzk_web.accounts import throttle
from cuzk_web.accounts.models import LoginAttempts

from .conftest import PASSWORD

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]


def try_login(name: str, password: str = "wrong", address: str = "192.0.2.1") -> HttpResponse:
    return Client(REMOTE_ADDR=address).post(reverse("login"), {"username": name, "password": password})


def test_an_address_that_failed_too_often_must_wait_even_with_the_right_password() -> None:
    for n in range(throttle.PER_ADDRESS):
        assert try_login(f"guess-{n}").status_code == 200
    answer = try_login("vera", PASSWORD)
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= throttle.WINDOW
    assert "Too many attempts" in answer.content.decode()
    assert try_login("vera", PASSWORD, address="192.0.2.2").status_code == 302


def test_an_account_is_guarded_against_many_addresses() -> None:
    for n in range(throttle.PER_ACCOUNT):
        assert try_login("vera", address=f"198.51.100.{n}").status_code == 200
    assert try_login("VERA", PASSWORD, address="203.0.113.9").status_code == 429
    assert try_login("olga", PASSWORD, address="203.0.113.9").status_code == 302


def test_the_wait_ends() -> None:
    for n in range(throttle.PER_ADDRESS + 1):
        try_login(f"guess-{n}")
    LoginAttempts.objects.update(since=F("since") - timedelta(seconds=throttle.WINDOW + 1))
    assert try_login("vera", PASSWORD).status_code == 302


def test_good_logins_are_not_counted() -> None:
    for _ in range(2 * throttle.PER_ADDRESS):
        assert try_login("vera", PASSWORD).status_code == 302


def test_ones_own_good_login_does_not_clear_what_the_address_did() -> None:
    for n in range(throttle.PER_ADDRESS - 1):
        try_login(f"guess-{n}")
    assert try_login("vera", PASSWORD).status_code == 302
    assert try_login("guess").status_code == 200
    assert try_login("guess").status_code == 429


def test_old_rows_go() -> None:
    try_login("guess", address="198.51.100.1")
    LoginAttempts.objects.update(since=F("since") - timedelta(seconds=2 * throttle.WINDOW + 1))
    try_login("other", address="198.51.100.2")
    assert LoginAttempts.objects.count() == 2


def test_neither_name_nor_password_is_kept() -> None:
    try_login("my-password-in-the-wrong-field")
    assert "password" not in "".join(LoginAttempts.objects.values_list("key", flat=True))


@pytest.mark.parametrize(
    ("hops", "forwarded", "expected"),
    [
        (0, "203.0.113.7", "192.0.2.1"),  # nobody may choose his address himself
        (1, "203.0.113.7", "203.0.113.7"),
        (1, "10.9.9.9, 203.0.113.7", "203.0.113.7"),
        (2, "203.0.113.7, 198.51.100.1", "203.0.113.7"),
        (1, "", "192.0.2.1"),
        (1, "nonsense", "unknown"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (1, "::ffff:203.0.113.7", "203.0.113.7"),
    ],
)
def test_the_clients_address(settings, hops: int, forwarded: str, expected: str) -> None:
    settings.PROXY_HOPS = hops
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR=forwarded)
    assert throttle.client_address(request) == expected


def test_parallel_attempts_cannot_slip_by(owner_dsn: str) -> None:
    """Forty connections count at once, as as many processes would: exactly the limit pass."""

    def count(_: int) -> int:
        with psycopg.connect(owner_dsn, autocommit=True) as connection:
            row = connection.execute(throttle._COUNT, {"key": "address:x", "window": 900}).fetchone()
            return row[0]

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(count, range(40)))
    assert sorted(counts) == list(range(1, 41))

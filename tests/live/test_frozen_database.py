"""A database that is frozen sends no error: the site must not wait for it, and says what is wrong."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Browser

from tests.browser import login, make_people, serving
from tests.postgres import Database

from .freezing import frozen

pytestmark = pytest.mark.postgres
BOUND_S = 8.0  # the bounds themselves are 3 s, and this machine may be busy


def fetch(url: str, cookie: str = "") -> tuple[int, str, float]:
    """(status, body, seconds until it was there)."""
    started = time.monotonic()
    request = urllib.request.Request(url, headers={"Cookie": cookie})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read()
    return status, body.decode(), time.monotonic() - started


def test_every_page_answers_while_the_database_is_frozen(own_server: Database, browser: Browser) -> None:
    make_people(own_server)
    with serving(own_server) as site:
        context = browser.new_context()
        login(context.new_page(), site, "vera")
        cookie = "; ".join(f"{c['name']}={c['value']}" for c in context.cookies())
        context.close()
        assert fetch(f"{site.url}readyz")[0] == 200
        with frozen(own_server.server):
            status, body, seconds = fetch(f"{site.url}readyz")
            assert (status, seconds < BOUND_S) == (503, True)
            assert json.loads(body)["reasons"][0].startswith("database: ")
            for path in ("", "jobs/", "submit/", "live/snapshot"):
                status, body, seconds = fetch(f"{site.url}{path}", cookie)
                assert (path, status, seconds < BOUND_S) == (path, 503, True)
                assert "The database does not answer" in body and "/static/css/app.css" in body
            assert fetch(f"{site.url}livez")[:2] == (200, "ok\n")
        assert any("ERROR django.request: " in line for line in site.lines), "the log has the details"
        until = time.monotonic() + 30
        while fetch(f"{site.url}readyz")[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert fetch(f"{site.url}jobs/", cookie)[0] == 200

"""Saved views: a filter under a name, each account its own."""

from __future__ import annotations

import re

import pytest

from cuzk_web.history.models import SavedView
from cuzk_web.history.saved import MOST

from .conftest import Login, person

pytestmark = pytest.mark.postgres

URL = "/jobs/views/"


def names(text: str) -> list[str]:
    return re.findall(r'<span class="saved-view"><a href="[^"]*"[^>]*>([^<]*)<', text)


def test_a_filter_is_saved_under_a_name_shown_used_replaced_and_deleted(login: Login) -> None:
    vera = login("vera")
    saved = vera.post(URL, {"name": "  failed   snaps ", "query": "kind=snap-update&state=failed&before=40"})
    assert saved.headers["Location"] == "/jobs/?kind=snap-update&state=failed"
    page = vera.get(saved.headers["Location"]).content.decode()
    assert names(page) == ["failed snaps"] and 'href="?kind=snap-update&amp;state=failed" aria-current="true"' in page
    vera.post(URL, {"name": "failed snaps", "query": "q=snap"})
    (view,) = SavedView.objects.all()
    assert view.query == "q=snap"
    assert names(login("olga").get("/jobs/").content.decode()) == []
    assert login("olga").post(f"{URL}{view.pk}/delete").status_code == 404
    assert vera.post(f"{URL}{view.pk}/delete").status_code == 302
    assert vera.post(f"{URL}{view.pk}/delete").status_code == 404
    assert names(vera.get("/jobs/").content.decode()) == []


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("", "q=x", "name"), (" \t", "q=x", "name"), ("n" * 81, "q=x", "80 characters"), ("a\0b", "q=x", "NUL"),
        ("n", "", "no filter"), ("n", "before=4", "no filter"), ("n", "colour=red", "colour"),
        ("n", "kind=porep", "kind"), ("n", "q=" + "x" * 20_000, "1024 bytes"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_a_clear_400(login: Login, name: str, query: str, said: str) -> None:
    answer = login("vera").post(URL, {"name": name, "query": query})
    assert answer.status_code == 400 and said in answer.content.decode()
    assert not SavedView.objects.exists()


def test_who_may(login: Login) -> None:
    for name, status in (("", 302), ("sam", 403)):
        assert login(name).post(URL, {"name": "n", "query": "q=x"}).status_code == status
    assert login("vera").get(URL).status_code == 405
    assert not SavedView.objects.exists()


def test_an_account_keeps_so_many(login: Login) -> None:
    vera = login("vera")
    SavedView.objects.bulk_create(SavedView(user=person("vera"), name=f"view {n}", query="q=x") for n in range(MOST))
    assert vera.post(URL, {"name": "one more", "query": "q=x"}).status_code == 400
    assert vera.post(URL, {"name": "view 3", "query": "q=y"}).status_code == 302


def test_a_name_is_shown_as_text(login: Login) -> None:
    vera = login("vera")
    vera.post(URL, {"name": "<script>alert(1)</script>", "query": "q=x"})
    assert "<script>alert" not in vera.get("/jobs/").content.decode()

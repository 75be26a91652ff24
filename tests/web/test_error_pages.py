"""Errors have pages: designed, escaped, and the 500 page needs nothing that may have failed."""

from __future__ import annotations

import pytest
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404
from django.test import Client, RequestFactory
from django.urls import path

from cuzk_web import errors, urls

from .conftest import Login

pytestmark = pytest.mark.postgres


def test_404_for_who_is_logged_in_and_who_is_not(login: Login) -> None:
    for name in ("", "sam", "vera"):
        answer = login(name).get("/no/such/page")
        assert answer.status_code == 404
        assert "Not found" in answer.content.decode() and "/static/css/app.css" in answer.content.decode()


@pytest.mark.parametrize(
    ("handler", "error", "status"),
    [
        (errors.bad_request, BadRequest("<b>kind</b>"), 400),
        (errors.permission_denied, PermissionDenied("<b>kind</b>"), 403),
        (errors.not_found, Http404("<b>kind</b>"), 404),
    ],
)
def test_messages_are_text(handler, error: Exception, status: int) -> None:
    answer = handler(RequestFactory().get("/"), error)
    assert answer.status_code == status
    assert "&lt;b&gt;kind&lt;/b&gt;" in answer.content.decode()


def test_a_long_message_is_bounded() -> None:
    answer = errors.bad_request(RequestFactory().get("/"), BadRequest("x" * 1_000_000))
    assert len(answer.content) < 20_000


def boom(request):
    raise RuntimeError("secret")


boom.login_required = False
urlpatterns = [*urls.urlpatterns, path("boom", boom)]
handler500 = urls.handler500


def test_500_touches_no_database_and_tells_no_secret(settings) -> None:
    settings.ROOT_URLCONF = __name__
    answer = Client(raise_request_exception=False).get("/boom")
    assert answer.status_code == 500
    text = answer.content.decode()
    assert "Something failed" in text and "secret" not in text

"""Error pages: what went wrong in one sentence, and where to go. Django's handlers point here."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.csrf import requires_csrf_token

from .faults import DatabaseFault, fault

LONGEST = 2000  # characters of a message that came from the outside


@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400. Says which parameter is wrong."""
    return page(request, 400, str(exception) or "The browser sent something that this page does not understand.")


@requires_csrf_token
def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403."""
    return page(request, 403, str(exception) or "Your account may not do this.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 for a form that was not sent from our own page, or from one that is too old."""
    return page(request, 403, "The form was too old, or was sent from another site. Go back, reload, and try again.")


@requires_csrf_token
def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404."""
    text = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    return page(request, 404, text or "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or what `faults` says of the database. Touches neither it nor the account: they may have failed."""
    if (found := fault(sys.exception())) is None:
        return HttpResponse(render_to_string("errors/500.html"), status=500)
    answer = _database(request, found)
    if found.again_s is not None:
        answer["Retry-After"] = str(found.again_s)
    return answer


def _database(request: HttpRequest, found: DatabaseFault) -> HttpResponse:
    """A page, or JSON for who asks for it, as the buttons of the live page do."""
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        return JsonResponse({"code": found.code, "message": found.message}, status=found.status)
    return HttpResponse(render_to_string("errors/database.html", {"fault": found}), status=found.status)


def page(request: HttpRequest, status: int, text: str) -> HttpResponse:
    """An error page; `text` is bounded and shown as text."""
    return render(request, "errors/error.html", {"status": status, "text": text[:LONGEST]}, status=status)

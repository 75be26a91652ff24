"""POST /workers/<id>/pause and the like: the buttons of the live page."""

from __future__ import annotations

from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from cuzk_web.accounts.roles import MAY_COMMAND, allowed
from prover.errors import CuzkError

from . import commands


@require_POST
def command(request: HttpRequest, worker_id: str, action: str) -> HttpResponse:
    """JSON for who accepts it (202, or 404 or 409 with code and message), else back to `next` with a message."""
    if not allowed(request.user, MAY_COMMAND):
        raise PermissionDenied("Only an operator may command workers.")
    assert isinstance(request.user, User)
    wants_json = request.get_preferred_type(["text/html", "application/json"]) == "application/json"
    try:
        asked = commands.ask(request.user, worker_id, action)
    except CuzkError as error:
        if wants_json:
            return _problem(error)
        messages.error(request, f"{error.message} ({error.code})")
    else:
        if wants_json:
            return _accepted(asked)
        messages.success(request, f"Asked {worker_id} to {action}.")
    return redirect(_back(request))


def _accepted(asked: commands.Asked) -> JsonResponse:
    made = asked.command
    body = {"id": str(made.id), "action": made.action, "target": made.target, "state": made.state}
    return JsonResponse(body | {"created": asked.created}, status=HTTPStatus.ACCEPTED)


def _problem(error: CuzkError) -> JsonResponse:
    status = HTTPStatus.NOT_FOUND if isinstance(error, commands.UnknownWorker) else HTTPStatus.CONFLICT
    return JsonResponse({"code": error.code, "message": error.message}, status=status)


def _back(request: HttpRequest) -> str:
    target = request.POST.get("next", "/")
    safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if safe else "/"

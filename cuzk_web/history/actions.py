"""POST /jobs/<id>/hold and the like: the buttons of a job's page. To cancel has a page of its own that asks first."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Final

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from cuzk_web.accounts.roles import MAY_COMMAND, allowed
from cuzk_web.fleet import commands
from cuzk_web.fleet.forms import arguments
from prover.errors import CuzkError, InvalidInput
from prover.states import Action, Command

ACTIONS: Final = tuple(action for action in commands.OF_JOBS if action != Action.CANCEL)


@require_POST
def act(request: HttpRequest, job_id: uuid.UUID, action: str) -> HttpResponse:
    """JSON for who accepts it (202, or 400, 404, 409 with code and message), else back to the job with a message."""
    if not allowed(request.user, MAY_COMMAND):
        raise PermissionDenied("Only an operator may command jobs.")
    assert isinstance(request.user, User)
    wants_json = request.get_preferred_type(["text/html", "application/json"]) == "application/json"
    try:
        answer = commands.ask_job(request.user, job_id, action, arguments(action, request.POST.dict()))
    except CuzkError as error:
        return _problem(error) if wants_json else _refused(request, job_id, error)
    if wants_json:
        return _accepted(answer)
    messages.success(request, said(answer))
    return redirect("job", answer.retried_as or job_id)


def said(answer: commands.JobAnswer) -> str:
    """What came of it, for people."""
    if answer.state == Command.DONE:
        return f"{answer.outcome[:1].upper()}{answer.outcome[1:]}."
    return "Its prover was asked." if answer.created else "Its prover was asked before, and has not answered yet."


def _refused(request: HttpRequest, job_id: uuid.UUID, error: CuzkError) -> HttpResponse:
    if isinstance(error, commands.UnknownJob):
        return _problem(error)
    messages.error(request, f"Refused: {error.message} ({error.code})")
    return redirect("job", job_id)


def _accepted(answer: commands.JobAnswer) -> JsonResponse:
    body = {"state": answer.state, "outcome": answer.outcome, "created": answer.created}
    retried = None if answer.retried_as is None else str(answer.retried_as)
    return JsonResponse(body | {"retried_as": retried}, status=HTTPStatus.ACCEPTED)


def _problem(error: CuzkError) -> JsonResponse:
    status = HTTPStatus.CONFLICT
    if isinstance(error, commands.UnknownJob):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(error, InvalidInput):
        status = HTTPStatus.BAD_REQUEST
    return JsonResponse({"code": error.code, "field": error.field, "message": error.message}, status=status)

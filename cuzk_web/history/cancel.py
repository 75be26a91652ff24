"""The page that asks whether a job shall be cancelled, and what its button does."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Final

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from cuzk_web.accounts.roles import MAY_COMMAND, allowed
from cuzk_web.fleet import commands
from cuzk_web.fleet.commands import Cancelled
from cuzk_web.fleet.models import Job
from prover.errors import CommandRefused

_SAID: Final = {
    Cancelled.AT_ONCE: "Cancelled.",
    Cancelled.ASKED: "Its prover was asked to cancel it: what is on a device runs out and is dropped.",
    Cancelled.WAITING: "Its prover was asked before, and has not answered yet.",
    Cancelled.BEFORE: "It was cancelled before.",
}


@require_http_methods(["GET", "HEAD", "POST"])
def cancel(request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
    """/jobs/<uuid>/cancel. GET asks; POST cancels and goes to the job's page, or is 409 with the reason."""
    if not allowed(request.user, MAY_COMMAND):
        raise PermissionDenied("Only an operator may cancel a job.")
    if request.method != "POST":
        return _page(request, job_id)
    assert isinstance(request.user, User)
    try:
        outcome = commands.cancel(request.user, job_id)
    except commands.UnknownJob as error:
        raise Http404(error.message) from error
    except CommandRefused as error:
        return _page(request, job_id, error)
    messages.success(request, _SAID[outcome])
    return redirect("job", job_id)


def _page(request: HttpRequest, job_id: uuid.UUID, error: CommandRefused | None = None) -> HttpResponse:
    job = get_object_or_404(Job, pk=job_id)
    status = HTTPStatus.CONFLICT if error else HTTPStatus.OK
    return render(request, "history/job_cancel.html", {"job": job, "error": error}, status=status)

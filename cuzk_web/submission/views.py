"""The page that takes a request."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from cuzk_web.accounts.roles import MAY_SUBMIT, allowed
from cuzk_web.faults import causes
from prover.errors import CuzkError, RequestConflict

from . import quota
from .child import Reported, admit_file
from .errors import QuotaExceeded, SubmissionBusy, SubmissionFailed
from .forms import FileForm, SampleForm
from .intake import Admitted, Submitter, admit
from .samples import SAMPLES

IN_PROCESS = 1 << 20  # bytes: up to here a request is read by the web process itself
_STATUS: dict[str, int] = {
    "request_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    RequestConflict.code: HTTPStatus.CONFLICT,
    QuotaExceeded.code: HTTPStatus.TOO_MANY_REQUESTS,
    SubmissionBusy.code: HTTPStatus.SERVICE_UNAVAILABLE,
    SubmissionFailed.code: HTTPStatus.INTERNAL_SERVER_ERROR,
    **{cause.code: cause.status for cause in causes()},
}


@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """GET /submit/: the forms. POST: to the job's page, or the form again with the code, the field and the limit."""
    if not allowed(request.user, MAY_SUBMIT):
        raise PermissionDenied("Only an operator may submit requests.")
    if request.method != "POST":
        return _page(request, FileForm())
    form = SampleForm(request.POST) if "sample" in request.POST else FileForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, form, HTTPStatus.BAD_REQUEST)
    try:
        admitted = _admit(form, _submitter(request))
    except CuzkError as error:
        return _refused(request, form, error)
    if admitted.created:
        messages.success(request, f"Submitted: this is job {admitted.number}.")
    else:
        messages.info(request, f"This request is job {admitted.number} already; no second one was made.")
    return redirect("job", admitted.job)


def _submitter(request: HttpRequest) -> Submitter:
    assert request.user.pk is not None
    return Submitter(request.user.pk, request.user.get_username())


def _admit(form: FileForm | SampleForm, by: Submitter) -> Admitted:
    values = form.cleaned_data
    if isinstance(form, SampleForm):
        return admit(SAMPLES[values["sample"]].read(), by, values["request_id"])
    file: TemporaryUploadedFile = values["request"]
    request_id = values["request_id"] or None
    if (file.size or 0) > IN_PROCESS:
        return admit_file(Path(file.temporary_file_path()), by, request_id)
    return admit(file.read(), by, request_id)


def _refused(request: HttpRequest, form: FileForm | SampleForm, error: CuzkError) -> HttpResponse:
    code = error.reported_code if isinstance(error, Reported) else error.code
    status = _STATUS.get(code, HTTPStatus.BAD_REQUEST)
    return _page(request, form, status, {"code": code, "field": error.field, "message": error.message})


def _page(
    request: HttpRequest, form: FileForm | SampleForm, status: int = 200, error: dict[str, Any] | None = None
) -> HttpResponse:
    by = _submitter(request)
    offers = [(sample, f"sample-{sample.name}-{secrets.token_hex(4)}") for sample in SAMPLES.values()]
    context = {
        "form": form if isinstance(form, FileForm) else FileForm(), "error": error, "samples": offers,
        "used": quota.used(by.id, by.name), "max_bytes": settings.SUBMISSION_MAX_BYTES,
        "max_jobs": settings.SUBMISSION_OPEN_JOBS, "max_today": settings.SUBMISSION_BYTES_A_DAY,
    }  # fmt: skip
    return render(request, "submission/submit.html", context, status=status)

"""The list of jobs, the page of one, and what can be downloaded from it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connection
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from cuzk_web.accounts.roles import MAY_COMMAND, MAY_READ_REQUESTS, allowed
from cuzk_web.fleet.forms import DeadlineForm, PriorityForm
from cuzk_web.fleet.models import Attempt, Command, Delivery, Job, JobInput, Worker
from cuzk_web.live.labels import KINDS
from prover.filecoin.shapes import PROOF_BYTES
from prover.states import Job as JobState
from prover.states import Target, job_actions

from . import saved, timeline
from .events import Cursor, event_page
from .filters import ENDED, OPEN, STATES, InvalidFilter, JobFilter
from .pages import SearchTooSlow, job_page

Response = TypeVar("Response", HttpResponse, StreamingHttpResponse)
CHUNK = 1 << 20  # bytes
_PIECE = "SELECT substring(request FROM %s FOR %s) FROM job_input WHERE job_id = %s"
COMMANDS = 10  # shown
KNOWN = 500  # workers that the filter offers
ATTEMPTS = 5000  # shown at most: a job has at most 1024 partitions, and few are tried twice


@require_safe
def job_list(request: HttpRequest) -> HttpResponse:
    """GET /jobs/: newest first. 400 for a filter that makes no sense, 503 for a search that takes too long."""
    try:
        wanted = JobFilter.from_query(request.GET)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    choices = {"kinds": KINDS, "states": [OPEN, ENDED, *STATES]}
    context: dict[str, Any] = {"filter": wanted, "saved": saved.of(request.user), **choices, **_known()}
    try:
        context["page"] = job_page(wanted)
    except SearchTooSlow as error:
        return render(request, "history/job_list.html", context | {"error": error}, status=503)
    return render(request, "history/job_list.html", context)


@require_safe
def job_detail(request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
    """GET /jobs/<uuid>/: everything that is known of one job."""
    job = get_object_or_404(Job.objects.select_related("retry_of"), pk=job_id)
    after = request.GET.get("events")
    try:
        events = event_page(job.id, Cursor.parse(after) if after else None)
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    attempts = Attempt.objects.filter(job=job).select_related("worker").order_by("partition", "attempt_no")
    rows = [timeline.row(attempt) for attempt in attempts[:ATTEMPTS]]
    wall = timeline.wall_ms(job.submitted_at, job.ended_at)
    return render(request, "history/job_detail.html", {
        "job": job, "rows": rows, "events": events, "timings": timeline.timings(rows, wall), "wall_ms": wall,
        "phases": timeline.PHASE_NAMES, "views": timeline.views(job, rows),
        "proof_bytes": job.partitions * PROOF_BYTES, "deliverable": _delivered(job).exists(),
        "digest": bytes(job.request_digest).hex(),
        "retries": Job.objects.filter(retry_of=job).only("id", "number", "state").order_by("number")[:20],
        "may_read_request": allowed(request.user, MAY_READ_REQUESTS),
        "actions": job_actions(job.state) if allowed(request.user, MAY_COMMAND) else (),
        "priority_form": PriorityForm(initial={"priority": job.priority}),
        "deadline_form": DeadlineForm(initial={"deadline": job.deadline}),
        "commands": commands_of(job),
    })  # fmt: skip


@require_safe
def proof(request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
    """GET /jobs/<uuid>/proof: the assembled bytes, only once they have been delivered."""
    job = get_object_or_404(Job.objects.only("id", "state", "kind", "local_keys"), pk=job_id)
    delivery = _delivered(job).first()
    if delivery is None:
        raise Http404("This job has no proof: only a job that is done has one.")
    name = f"{job.kind}-{job.id}{'.local-keys' if job.local_keys else ''}.proof"
    return _attachment(HttpResponse(bytes(delivery.proof)), name)


@require_safe
def request_file(request: HttpRequest, job_id: uuid.UUID) -> StreamingHttpResponse:
    """GET /jobs/<uuid>/request: SubmitProofRequest in protobuf, for operators. Read from the database in pieces."""
    if not allowed(request.user, MAY_READ_REQUESTS):
        raise PermissionDenied("Only an operator may download a request.")
    if not JobInput.objects.filter(job=job_id).exists():
        raise Http404("The request of this job is not kept any more, or there is no such job.")
    return _attachment(StreamingHttpResponse(_pieces(job_id)), f"request-{job_id}.pb")


def commands_of(job: Job) -> list[Command]:
    """What was asked of a job, the newest first, and what came of it."""
    asked = Command.objects.filter(target=str(job.id), target_kind=Target.JOB.value).order_by("-requested_at")
    return list(asked[:COMMANDS])


def _known() -> dict[str, list[str]]:
    """The names to choose a prover and a worker from."""
    workers = list(Worker.objects.values_list("id", "prover")[:KNOWN])
    return {"workers": [worker for worker, _ in workers], "provers": sorted({prover for _, prover in workers})}


def _delivered(job: Job) -> QuerySet[Delivery]:
    return Delivery.objects.filter(job=job, job__state=JobState.DONE.value)


def _attachment(response: Response, name: str) -> Response:
    response["Content-Type"] = "application/octet-stream"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _pieces(job_id: uuid.UUID) -> AsyncIterator[bytes]:
    start = 1
    while piece := await sync_to_async(_piece)(job_id, start):
        yield piece
        start += len(piece)


def _piece(job_id: uuid.UUID, start: int) -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(_PIECE, [start, CHUNK, job_id])
        found = cursor.fetchone()
    return b"" if found is None else bytes(found[0])

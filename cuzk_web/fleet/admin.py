"""The shared tables in Django's admin: to read. People act on workers by named actions, which write commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from cuzk_web import formats
from cuzk_web.accounts.roles import MAY_COMMAND, allowed
from cuzk_web.live.labels import KINDS, kind_name
from cuzk_web.live.templatetags.cuzk import badge, label
from cuzk_web.readonly import ReadOnly, one_of
from prover import states
from prover.errors import CuzkError

from . import commands
from .forms import FORMS, arguments
from .models import Anomaly, Attempt, Command, Device, Holding, Job, Session, Worker


@admin.register(Session)
class SessionAdmin(ReadOnly):
    """Lives of provers."""

    list_display = ("id", "prover", "badge", "host", "pid", "version", "started_at", "heartbeat_at", "ended_at")
    list_filter = (one_of("state", states.Lifecycle),)
    search_fields = ("prover", "host")
    ordering = ("-started_at",)


@admin.register(Device)
class DeviceAdmin(ReadOnly):
    """Devices of provers."""

    list_display = ("id", "badge", "name", "platform", "memory")
    ordering = ("id",)

    @admin.display(description="memory")
    def memory(self, device: Device) -> str:
        """In GiB."""
        return formats.size(device.memory_total_bytes)


def asks_job(action: str) -> Callable[..., Any]:
    """The admin action that asks for something of each selected job."""

    @admin.action(
        description=f"{action.capitalize()}: {commands.JOB_MEANING[states.Action(action)]}", permissions=["command"]
    )
    def act(model_admin: JobAdmin, request: HttpRequest, jobs: QuerySet[Job]) -> HttpResponse | None:
        fields = request.POST.dict() if "confirmed" in request.POST else None
        if fields is None and (action in FORMS or action == states.Action.CANCEL):
            return model_admin.confirmation(request, jobs, action)
        for job in jobs:
            model_admin.ask(request, job, action, fields or {})
        return None

    act.__name__ = action
    return act


@admin.register(Job)
class JobAdmin(ReadOnly):
    """Jobs, and what can be asked of them; the history has the better list."""

    list_display = ("number", "request", "kind_name", "badge", "priority", "submitted_by", "submitted_at", "error_code")
    list_filter = (one_of("kind", KINDS), one_of("state", states.Job), one_of("priority", formats.PRIORITIES))
    search_fields = ("=id", "=request_id")
    ordering = ("-number",)
    exclude = ("request_digest",)
    list_select_related = False
    actions = [asks_job(action) for action in commands.OF_JOBS]

    def has_command_permission(self, request: HttpRequest) -> bool:
        """Whether the actions are offered at all."""
        return allowed(request.user, MAY_COMMAND)

    def ask(self, request: HttpRequest, job: Job, action: str, fields: Mapping[str, Any]) -> None:
        """Ask for something of one job, and say what came of it."""
        assert isinstance(request.user, User)
        try:
            answer = commands.ask_job(request.user, job.pk, action, arguments(action, fields))
        except CuzkError as error:
            self.message_user(request, f"Refused: {error.message} ({error.code})", messages.ERROR)
            return
        outcome = answer.outcome or ("its prover was asked" if answer.created else "its prover was asked before")
        self.message_user(request, f"Job {job.number}: {outcome}.", messages.SUCCESS)

    def confirmation(self, request: HttpRequest, jobs: QuerySet[Job], action: str) -> HttpResponse:
        """Ask the person once more, and for what the action takes."""
        form = FORMS[action]() if action in FORMS else None
        meaning = commands.JOB_MEANING[states.Action(action)]
        context = {**self.admin_site.each_context(request), "jobs": jobs, "action": action, "form": form}
        template = "admin/fleet/job/confirm.html"
        return TemplateResponse(request, template, context | {"meaning": meaning, "opts": self.opts})

    @admin.display(description="request id")
    def request(self, job: Job) -> SafeString:
        """The submitter's id."""
        return label(job.request_id)

    @admin.display(description="kind", ordering="kind")
    def kind_name(self, job: Job) -> str:
        """The name people use."""
        return kind_name(job.kind)


@admin.register(Attempt)
class AttemptAdmin(ReadOnly):
    """Attempts at partitions."""

    list_display = ("attempt", "badge", "worker_id", "state_at", "reason")
    list_filter = (one_of("state", states.Attempt),)
    search_fields = ("=job__id", "=worker__id")
    ordering = ("-state_at",)

    @admin.display(description="attempt")
    def attempt(self, row: Attempt) -> SafeString:
        """job:partition:number."""
        return label(row.id)


@admin.register(Anomaly)
class AnomalyAdmin(ReadOnly):
    """Moves that were refused."""

    list_display = ("id", "at", "code", "entity", "what", "old", "new")
    list_filter = (one_of("code", states.Anomaly),)
    search_fields = ("=entity_id",)
    ordering = ("-id",)

    @admin.display(description="id of the entity")
    def what(self, row: Anomaly) -> SafeString:
        """What was to be moved."""
        return label(row.entity_id)


@admin.register(Command)
class CommandAdmin(ReadOnly):
    """What was asked, by whom, and what came of it."""

    list_display = ("requested_at", "action", "what", "badge", "requested_by_name", "answered_at", "outcome")
    list_filter = (
        one_of("target_kind", states.Target), one_of("action", states.Action), one_of("state", states.Command),
    )  # fmt: skip
    search_fields = ("=target", "=requested_by_name")
    ordering = ("-requested_at",)

    @admin.display(description="target")
    def what(self, row: Command) -> SafeString:
        """The worker, job, key or prover."""
        return label(row.target)


def asks_key(action: str) -> Callable[..., Any]:
    """The admin action that asks for something of each selected key."""
    words = f"{action.capitalize()}: {commands.KEY_MEANING[states.Action(action)]}"

    @admin.action(description=words, permissions=["command"])
    def act(model_admin: HoldingAdmin, request: HttpRequest, keys: QuerySet[Holding]) -> None:
        for key in keys:
            model_admin.ask(request, key, action)

    act.__name__ = action
    return act


@admin.register(Holding)
class HoldingAdmin(ReadOnly):
    """Keys, tables and programs that provers hold, and what can be asked of keys."""

    list_display = ("id", "name", "badge", "nbytes", "state_at")
    list_filter = (one_of("state", states.Holding),)
    search_fields = ("id",)
    ordering = ("id",)
    actions = [asks_key(action) for action in commands.OF_KEYS]

    def has_command_permission(self, request: HttpRequest) -> bool:
        """Whether the actions are offered at all."""
        return allowed(request.user, MAY_COMMAND)

    def ask(self, request: HttpRequest, key: Holding, action: str) -> None:
        """Ask for something of one key, and say what came of it."""
        assert isinstance(request.user, User)
        try:
            commands.ask_key(request.user, key, action)
        except CuzkError as error:
            self.message_user(request, f"Refused: {key.pk}: {error.message} ({error.code})", messages.ERROR)
            return
        self.message_user(request, f"Its prover was asked to {action} {key.pk}.", messages.SUCCESS)

    @admin.display(description="what")
    def name(self, row: Holding) -> str | None:
        """In words."""
        name: str | None = row.detail.get("name")
        return name

    @admin.display(description="memory")
    def nbytes(self, row: Holding) -> str | None:
        """Its size."""
        return formats.size(row.detail.get("bytes"))


def asks(action: str) -> Callable[..., Any]:
    """The admin action that asks each selected worker."""
    words = f"{action.capitalize()}: {commands.MEANING[states.Action(action)]}"

    @admin.action(description=words, permissions=["command"])
    def act(model_admin: WorkerAdmin, request: HttpRequest, workers: QuerySet[Worker]) -> HttpResponse | None:
        if action in commands.CONFIRMED and "confirmed" not in request.POST:
            return model_admin.confirmation(request, workers, action)
        for worker in workers:
            model_admin.ask(request, worker, action)
        return None

    act.__name__ = action
    return act


@admin.register(Worker)
class WorkerAdmin(ReadOnly):
    """Workers, and what can be asked of them."""

    list_display = ("display", "id", "badge", "wish", "admin_by", "admin_at", "last_command", "device_id")
    list_filter = (one_of("state", states.Lifecycle), one_of("admin", states.Admin), "prover")
    search_fields = ("=id", "prover")
    ordering = ("prover", "ordinal", "sub_id")
    actions = [asks(action) for action in commands.ACTIONS]

    def has_command_permission(self, request: HttpRequest) -> bool:
        """Whether the actions are offered at all."""
        return allowed(request.user, MAY_COMMAND)

    def ask(self, request: HttpRequest, worker: Worker, action: str) -> None:
        """Ask one worker, and say what came of it."""
        assert isinstance(request.user, User)
        try:
            asked = commands.ask(request.user, worker.pk, action)
        except CuzkError as error:
            self.message_user(request, f"Refused: {error.message} ({error.code})", messages.ERROR)
            return
        text = "" if asked.created else "; the same was asked before and waits for its answer"
        self.message_user(request, f"Asked W{worker.display_id} ({worker.pk}) to {action}{text}.", messages.SUCCESS)

    def confirmation(self, request: HttpRequest, workers: QuerySet[Worker], action: str) -> HttpResponse:
        """Ask the person once more."""
        context = {**self.admin_site.each_context(request), "workers": workers, "action": action, "opts": self.opts}
        return TemplateResponse(request, "admin/fleet/worker/confirm.html", context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With whether the prover is alive, and the newest command."""
        alive = ExpressionWrapper(commands.with_liveness(), output_field=BooleanField())
        asked = Command.objects.filter(target=OuterRef("pk")).order_by("-requested_at")
        last = Subquery(asked.values(last=JSONObject(action="action", state="state", outcome="outcome"))[:1])
        rows: QuerySet[Any] = super().get_queryset(request).annotate(alive=alive, last=last)
        return rows

    @admin.display(description="worker", ordering="display_id")
    def display(self, worker: Worker) -> str:
        """Its label."""
        return f"W{worker.display_id}"

    @admin.display(description="state", ordering="state")
    def badge(self, row: Any) -> SafeString:
        """A worker of a prover that lost its lease is lost, whatever was written last."""
        return badge("lost" if row.state == "online" and not row.alive else row.state)

    @admin.display(description="wish", ordering="admin")
    def wish(self, worker: Worker) -> SafeString:
        """What people want of it."""
        return badge(worker.admin)

    @admin.display(description="last command")
    def last_command(self, worker: Any) -> str | SafeString:
        """The newest command and its state."""
        last = worker.last
        if last is None:
            return "–"
        return format_html("{} {} {}", last["action"], badge(last["state"]), last["outcome"] or "")

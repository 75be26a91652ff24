"""The tables that the prover and the web share. Migrations make them; who may write which is in `grants`.

The prover writes them all: here they are read-only. What the web may change (submit a job, ask for a command) it does
by the functions of migration 0002. Times are the database's. States are the words of `prover.states`; a row mirrors the
fold of its transitions, and the view `mirror` gives all of them in one shape, the fields of `states.View`.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from prover.states import ATTEMPT_ENDS, FRONT
from prover.states import Attempt as AttemptState

OPEN_STATES = [state.value for state in AttemptState if state and state not in ATTEMPT_ENDS]
FRONT_STATES = sorted(state.value for state in FRONT)


class Mirror(models.Model):
    """What every mirrored row has: a `states.View`, column by column."""

    state = models.TextField(default="")
    state_at = models.DateTimeField(help_text="when the state was entered")
    times = models.JSONField(default=dict, help_text="state -> microseconds since 1970, the last time it was entered")
    reason = models.TextField(null=True)
    detail = models.JSONField(default=dict, help_text="merged over all transitions")
    moved_by = models.UUIDField(null=True, help_text="session of the last transition; null when it was never moved")
    moved_seq = models.BigIntegerField(default=0, help_text="and its number there")

    class Meta:
        abstract = True


class Session(Mirror):
    """One life of a prover process; or the one `site` session that numbers what the web does."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    prover = models.TextField(help_text="stable name of the prover; 'site' for the web's own session")
    host = models.TextField(default="")
    machine = models.TextField(default="", help_text="boot and process namespace in which `pid` means something")
    pid = models.IntegerField(null=True)
    version = models.TextField(default="")
    head_seq = models.BigIntegerField(default=0, help_text="highest seq written")
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    tick_at = models.DateTimeField(null=True, help_text="last sign of life of the engine's own loop")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "session"
        indexes = [models.Index(fields=["ended_at"], name="session_ended")]  # the open ones, and those that ended last


class Device(Mirror):
    """A physical device of a prover."""

    id = models.TextField(primary_key=True, help_text="prover/ordinal")
    session = models.ForeignKey(Session, models.DO_NOTHING)
    ordinal = models.IntegerField()
    name = models.TextField()
    platform = models.TextField()
    memory_total_bytes = models.BigIntegerField(null=True)

    class Meta:
        db_table = "device"


class Worker(Mirror):
    """A worker by its stable identity; `display_id` is the number n of its label Wn."""

    id = models.TextField(primary_key=True, help_text="prover/ordinal/sub")
    session = models.ForeignKey(Session, models.DO_NOTHING)
    device = models.ForeignKey(Device, models.DO_NOTHING, db_constraint=False)
    prover = models.TextField()
    ordinal = models.IntegerField()
    sub_id = models.IntegerField()
    display_id = models.IntegerField()
    epoch = models.IntegerField(default=1)
    admin = models.TextField(default="enabled")
    admin_reason = models.TextField(null=True)
    admin_by = models.TextField(null=True)
    admin_at = models.DateTimeField(null=True)
    admin_times = models.JSONField(default=dict)
    admin_detail = models.JSONField(default=dict)
    admin_moved_by = models.UUIDField(null=True)
    admin_moved_seq = models.BigIntegerField(default=0)

    class Meta:
        db_table = "worker"
        ordering = ("prover", "ordinal", "sub_id")

    def __str__(self) -> str:
        return f"W{self.display_id} ({self.id})"


class Holding(Mirror):
    """A key or a compiled program that a prover holds, or is loading or compiling."""

    id = models.TextField(primary_key=True, help_text="prover:key:NAME or prover:program:NAME")
    session = models.ForeignKey(Session, models.DO_NOTHING)

    class Meta:
        db_table = "holding"


class Job(Mirror):
    """A proof that somebody asked for."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    number = models.BigIntegerField(unique=True, help_text="order of submission, from 1")
    request_id = models.TextField(help_text="the submitter's own id; never cut")
    request_digest = models.BinaryField(help_text="SHA-256 of the canonical request")
    kind = models.TextField()
    sector_size = models.BigIntegerField()
    registered_proof = models.IntegerField(null=True)
    priority = models.IntegerField(help_text="4 critical, 3 high, 2 normal, 1 low")
    deadline = models.DateTimeField(null=True)
    miner_id = models.BigIntegerField(null=True)
    sector_number = models.BigIntegerField(null=True)
    partition_index = models.IntegerField(default=0)
    partitions = models.IntegerField()
    partitions_done = models.IntegerField(default=0)
    submitted_by = models.TextField()
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    session = models.ForeignKey(Session, models.DO_NOTHING, null=True, help_text="who holds the lease")
    lease_epoch = models.IntegerField(default=0, help_text="how often it was leased")
    losses = models.IntegerField(default=0, help_text="how often its session was lost")
    error_code = models.TextField(null=True)
    error_message = models.TextField(null=True)
    retry_of = models.ForeignKey("self", models.DO_NOTHING, null=True)
    local_keys = models.BooleanField(null=True, help_text="proved with keys made locally: not for the chain")
    timings = models.JSONField(default=dict, help_text="milliseconds by phase")

    class Meta:
        db_table = "job"
        indexes = [
            # the history's order, whole and by each of its filters
            models.Index(fields=["-submitted_at", "-number"], name="job_newest"),
            models.Index(fields=["kind", "-submitted_at", "-number"], name="job_kind"),
            models.Index(fields=["state", "-submitted_at", "-number"], name="job_state"),
            models.Index(fields=["kind", "state", "-submitted_at", "-number"], name="job_kind_state"),
            models.Index(
                fields=["-submitted_at", "-number"], name="job_newest_open", condition=models.Q(ended_at=None)
            ),
            models.Index(fields=["ended_at"], name="job_ended", condition=models.Q(ended_at__isnull=False)),
            models.Index(
                fields=["error_code", "ended_at"], name="job_error", condition=models.Q(error_code__isnull=False)
            ),
            models.Index(fields=["request_id"], name="job_request_id"),
            models.Index(fields=["priority", "number"], name="job_open", condition=models.Q(ended_at=None)),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["request_id"],
                name="job_request_id_live",
                condition=~models.Q(state__in=["failed", "cancelled"]),
            )
        ]

    def __str__(self) -> str:
        return f"job {self.number}"


class JobInput(models.Model):
    """The request as it was submitted: SubmitProofRequest in protobuf."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True)
    request = models.BinaryField()

    class Meta:
        db_table = "job_input"


class JobSearch(models.Model):
    """What the history's search looks a job up by, kept by triggers on `job` (sql/search.sql)."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, db_constraint=False)
    words = ArrayField(models.TextField())

    class Meta:
        db_table = "job_search"
        indexes = [GinIndex(fields=["words"], name="job_search_words")]


class Attempt(Mirror):
    """One attempt at one partition."""

    id = models.TextField(primary_key=True, help_text="job:partition:attempt_no")
    job = models.ForeignKey(Job, models.CASCADE, db_index=False)  # attempt_identity begins with it
    partition = models.IntegerField()
    attempt_no = models.IntegerField()
    session = models.ForeignKey(Session, models.DO_NOTHING, db_index=False)
    worker = models.ForeignKey(Worker, models.DO_NOTHING, null=True, db_constraint=False, db_index=False)

    class Meta:
        db_table = "attempt"
        constraints = [
            models.UniqueConstraint(fields=["job", "partition", "attempt_no"], name="attempt_identity"),
            models.UniqueConstraint(
                fields=["job", "partition"],
                name="attempt_one_open",
                condition=models.Q(state__in=OPEN_STATES),
            ),
            models.UniqueConstraint(
                fields=["worker"],
                name="attempt_one_front",
                condition=models.Q(state__in=FRONT_STATES),
            ),
        ]
        indexes = [
            models.Index(fields=["worker", "-state_at"], name="attempt_worker"),
            models.Index(
                fields=["reason", "state_at"],
                name="attempt_cause",
                condition=models.Q(state__in=["failed", "lost"]),
            ),
            models.Index(fields=["session"], name="attempt_open", condition=models.Q(state__in=OPEN_STATES)),
            models.Index(fields=["-state_at"], name="attempt_failed", condition=models.Q(state="failed")),
        ]


class Transition(models.Model):
    """The event log: everything that any page shows is a fold of it. Dense `seq` from 1 in each session."""

    pk = models.CompositePrimaryKey("session", "seq")
    # no constraint: the journal holds the session's row when it writes, and 20,000 checks a second cost
    session = models.ForeignKey(Session, models.CASCADE, db_constraint=False, db_index=False)
    seq = models.BigIntegerField()
    at = models.DateTimeField()
    mono_ns = models.BigIntegerField()
    entity = models.TextField()
    entity_id = models.TextField()
    old = models.TextField()
    new = models.TextField()
    job = models.UUIDField(null=True)
    partition = models.IntegerField(null=True)
    attempt_no = models.IntegerField(null=True)
    worker = models.TextField(null=True)
    reason = models.TextField(null=True)
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "transition"
        indexes = [
            models.Index(fields=["job", "at"], name="transition_job", condition=models.Q(job__isnull=False)),
            models.Index(
                fields=["entity_id", "at"], name="transition_worker", condition=models.Q(entity__in=["worker", "admin"])
            ),
        ]


class Proof(models.Model):
    """A verified proof of one partition: a fact, stored once, whoever brings it."""

    pk = models.CompositePrimaryKey("job", "partition")
    job = models.ForeignKey(Job, models.CASCADE, db_index=False)
    partition = models.IntegerField()
    proof = models.BinaryField()
    attempt_no = models.IntegerField()
    session = models.ForeignKey(Session, models.DO_NOTHING)
    verified_at = models.DateTimeField()

    class Meta:
        db_table = "proof"


class Delivery(models.Model):
    """The assembled proof of a job, verified once more as it is delivered."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True)
    proof = models.BinaryField()
    verified_at = models.DateTimeField()

    class Meta:
        db_table = "delivery"


class Sample(models.Model):
    """Gauges at a moment: memory, queue, utilisation."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, db_index=False)
    at = models.DateTimeField()
    gauges = models.JSONField()

    class Meta:
        db_table = "sample"
        constraints = [models.UniqueConstraint(fields=["session", "at"], name="sample_moment")]


class Anomaly(models.Model):
    """A move that was refused. Counting them shows that the guards work."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, db_index=False)
    number = models.BigIntegerField(null=True, help_text="count within the session: none is stored twice")
    at = models.DateTimeField()
    code = models.TextField()
    entity = models.TextField()
    entity_id = models.TextField()
    old = models.TextField()
    new = models.TextField()
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "anomaly"
        verbose_name_plural = "anomalies"
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="anomaly_number")]


class Command(Mirror):
    """What a person asked for; the prover that has the target executes it and answers.

    What was asked of a job that no prover had was executed by the database: its prover is 'site'. The target is the id
    of a worker or a job, prover:NAME of a key, or the name of a prover.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    target_kind = models.TextField(default="worker", db_default="worker", help_text="one of prover.states.Target")
    action = models.TextField(help_text="one of prover.states.Action")
    target = models.TextField(help_text="id of the worker or job")
    prover = models.TextField(help_text="who shall execute it")
    arguments = models.JSONField(default=dict)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True)
    requested_by_name = models.TextField(help_text="kept even when the account goes")
    requested_at = models.DateTimeField()
    session = models.ForeignKey(Session, models.DO_NOTHING, null=True)
    answered_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True)

    class Meta:
        db_table = "command"
        indexes = [
            models.Index(
                fields=["prover", "requested_at"],
                name="command_open",
                condition=models.Q(state__in=["pending", "taken"]),
            ),
            models.Index(fields=["target", "-requested_at"], name="command_target"),
        ]


class Counter(models.Model):
    """Jobs that ended, by kind and end, so that no page counts the history; kept by the journal with the transition."""

    pk = models.CompositePrimaryKey("kind", "state")
    kind = models.TextField()
    state = models.TextField()
    count = models.BigIntegerField(default=0)

    class Meta:
        db_table = "counter"

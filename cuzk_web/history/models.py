"""What the history keeps of its own: saved views, folds of the log to replay it from, sums of what was."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

MAX_NAME = 80  # characters


class SavedView(models.Model):
    """A filter of the list of jobs under a name; each account has its own."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False)
    name = models.CharField(max_length=MAX_NAME)
    query = models.TextField(help_text="the filter as the address has it")
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "saved_view"
        ordering = ("name",)
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_view_name")]

    def __str__(self) -> str:
        return self.name


class Checkpoint(models.Model):
    """The fold of the event log at a moment (history.checkpoints), from which a replay starts."""

    at = models.DateTimeField(help_text="time of the newest row in it")
    heads = models.JSONField(help_text="session -> the number up to which its rows are in it")
    state = models.BinaryField(help_text="FleetState as JSON, compressed by zlib")

    class Meta:
        db_table = "checkpoint"
        indexes = [models.Index(fields=["at"], name="checkpoint_at")]


class Rollup(models.Model):
    """Jobs that ended in an hour or a day (history.rollups), of one kind or of all."""

    HOUR, DAY = "hour", "day"

    pk = models.CompositePrimaryKey("span", "start", "kind")
    span = models.CharField(max_length=4, help_text="hour or day, in UTC")
    start = models.DateTimeField()
    kind = models.TextField(help_text="empty: of all kinds")
    done = models.IntegerField()
    failed = models.IntegerField()
    cancelled = models.IntegerField()
    partitions = models.BigIntegerField(help_text="of the jobs that were done")
    wait_ms = ArrayField(models.FloatField(null=True), null=True, help_text="from submission to start: p50, p95, p99")
    took_ms = ArrayField(models.FloatField(null=True), null=True, help_text="of those done, from submission: the same")

    class Meta:
        db_table = "job_rollup"


class Retention(models.Model):
    """How long something is kept; the function `purge` of the database reads it (sql/retention.sql)."""

    name = models.TextField(primary_key=True)
    days = models.IntegerField(validators=[MinValueValidator(1), MaxValueValidator(3650)])
    meaning = models.TextField()
    reached = models.DateTimeField(null=True, blank=True, help_text="what is older has gone")

    class Meta:
        db_table = "retention"
        verbose_name_plural = "retention"
        ordering = ("name",)
        constraints = [
            models.CheckConstraint(condition=models.Q(days__gte=1, days__lte=3650), name="retention_days"),
        ]

    def __str__(self) -> str:
        return self.name

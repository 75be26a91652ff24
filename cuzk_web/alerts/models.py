"""Rules, channels, the alerts that rules raise, and the messages that go to channels. All are the web's own tables."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from .conditions import MEANINGS, Condition, Severity

SEVERITIES = [(one.value, one.value) for one in Severity]
CONDITIONS = [(one.value, MEANINGS[one].name) for one in Condition]
DAY_S = 24 * 3600


def bounds(low: int, high: int) -> list[MinValueValidator | MaxValueValidator]:
    """From `low` to `high`."""
    return [MinValueValidator(low), MaxValueValidator(high)]


class Rule(models.Model):
    """What to look for."""

    name = models.CharField(max_length=100, unique=True)
    condition = models.CharField(max_length=40, choices=CONDITIONS)
    severity = models.CharField(max_length=10, choices=SEVERITIES, default=Severity.WARNING.value)
    enabled = models.BooleanField(default=True)
    kind = models.CharField(
        max_length=40, blank=True, help_text="only proofs of this kind, where the condition has one"
    )
    seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=bounds(1, 30 * DAY_S),
        help_text="the condition's own time, where it has one; empty: as it is by default",
    )  # fmt: skip
    settle_s = models.PositiveIntegerField(
        default=30, validators=bounds(5, 7 * DAY_S), help_text="closed when the condition has not been true for so long"
    )
    repeat_s = models.PositiveIntegerField(
        default=4 * 3600, validators=bounds(0, 7 * DAY_S), help_text="said again after so long while it lasts; 0: never"
    )

    class Meta:
        db_table = "alert_rule"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def wait_s(self) -> int:
        """The condition's own time in seconds; 0 when it has none."""
        return self.seconds or MEANINGS[Condition(self.condition)].seconds or 0


class Format(models.TextChoices):
    """How a channel wants its messages."""

    WEBHOOK = "webhook", "webhook (JSON)"
    NTFY = "ntfy", "ntfy"
    SLACK = "slack", "Slack"


class Channel(models.Model):
    """Where messages go. Its address and token are secrets: no page and no log shows them."""

    name = models.CharField(max_length=100, unique=True)
    format = models.CharField(max_length=10, choices=Format.choices, default=Format.WEBHOOK)
    url = models.TextField("address")
    token = models.TextField(blank=True, default="")
    enabled = models.BooleanField(default=True)
    recoveries = models.BooleanField(default=True, help_text="say also when an alert is over")
    rules = models.ManyToManyField(Rule, blank=True, related_name="channels", help_text="none chosen: all rules")

    class Meta:
        db_table = "alert_channel"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        """What of the address may be shown."""
        return urlsplit(self.url).hostname or "?"


class Alert(models.Model):
    """A rule's condition that is true of something (`key`), from `opened_at` to `closed_at`."""

    rule = models.ForeignKey(Rule, models.SET_NULL, null=True)
    rule_name = models.TextField(help_text="kept even when the rule goes")
    condition = models.TextField()
    severity = models.TextField()
    key = models.TextField()
    title = models.TextField()
    text = models.TextField(default="")
    link = models.TextField(default="", help_text="path of the page that tells more")
    count = models.IntegerField(default=1)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="when the condition was true last")
    said_at = models.DateTimeField(null=True, help_text="when messages were made last")
    closed_at = models.DateTimeField(null=True)
    ending = models.TextField(default="")

    class Meta:
        db_table = "alert"
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "key"], name="alert_one_open", condition=models.Q(closed_at__isnull=True)
            )
        ]
        indexes = [
            models.Index(fields=["-opened_at", "-id"], name="alert_newest"),
            models.Index(fields=["closed_at"], name="alert_closed"),
        ]

    def __str__(self) -> str:
        return self.title


class Notification(models.Model):
    """A message on its way to a channel, and what came of it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    alert = models.ForeignKey(Alert, models.CASCADE, related_name="notifications")
    channel = models.ForeignKey(Channel, models.CASCADE)
    event = models.TextField(help_text="firing, repeat or resolved")
    body = models.JSONField()
    created_at = models.DateTimeField()
    next_at = models.DateTimeField(help_text="not sent before")
    attempts = models.IntegerField(default=0)
    delivered_at = models.DateTimeField(null=True)
    gave_up_at = models.DateTimeField(null=True)
    error = models.TextField(default="")

    class Meta:
        db_table = "alert_notification"
        indexes = [
            models.Index(
                fields=["next_at"],
                name="alert_notification_due",
                condition=models.Q(delivered_at__isnull=True, gave_up_at__isnull=True),
            )
        ]


class Evaluation(models.Model):
    """One row: when all rules were looked at last, by whichever web process did."""

    id = models.IntegerField(primary_key=True, default=1)
    at = models.DateTimeField()
    error = models.TextField(default="", help_text="rules that could not be looked at")

    class Meta:
        db_table = "alert_evaluation"

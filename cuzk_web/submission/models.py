"""What each account has submitted today."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Usage(models.Model):
    """Bytes of accepted requests of one account on one day (UTC)."""

    pk = models.CompositePrimaryKey("user", "day")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False)
    day = models.DateField()
    bytes = models.BigIntegerField()

    class Meta:
        db_table = "submission_usage"

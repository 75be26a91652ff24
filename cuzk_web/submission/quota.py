"""How much an account may submit: jobs that are open at once, and bytes a day (UTC)."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from cuzk_web import formats
from cuzk_web.fleet.models import Job

from .errors import QuotaExceeded
from .models import Usage

_CHARGE = """
INSERT INTO submission_usage AS used (user_id, day, bytes) VALUES (%s, (clock_timestamp() AT TIME ZONE 'UTC')::date, %s)
ON CONFLICT (user_id, day) DO UPDATE SET bytes = used.bytes + EXCLUDED.bytes RETURNING bytes
"""
_TODAY = "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date"


@dataclass(frozen=True)
class Used:
    """What of the quota is used."""

    open_jobs: int
    bytes_today: int


def used(user_id: int, username: str) -> Used:
    """What the account has used up to now."""
    with connection.cursor() as cursor:
        cursor.execute(_TODAY)
        (today,) = cursor.fetchone()
    row = Usage.objects.filter(user_id=user_id, day=today).values_list("bytes", flat=True).first()
    return Used(_open_jobs(username), row or 0)


def charge(user_id: int, username: str, size: int) -> None:
    """Count a job that was just made, in the same transaction. Raises QuotaExceeded: then the transaction rolls back.

    The row of the day stays locked until the end, so that parallel submissions of an account come one after the other.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CHARGE, [user_id, size])
        (today,) = cursor.fetchone()
    if today > settings.SUBMISSION_BYTES_A_DAY:
        limit = formats.size(settings.SUBMISSION_BYTES_A_DAY)
        raise QuotaExceeded(f"requests of {formats.size(today)} today (UTC), {limit} allowed", field="bytes a day")
    if (count := _open_jobs(username)) > settings.SUBMISSION_OPEN_JOBS:
        text = f"{count} open jobs with this one, {settings.SUBMISSION_OPEN_JOBS} allowed; wait until some end"
        raise QuotaExceeded(text, field="open jobs")


def _open_jobs(username: str) -> int:
    """Counted up to one above the limit, by the index of open jobs."""
    rows = Job.objects.filter(ended_at=None, submitted_by=username).order_by("priority", "number")
    return len(rows.values_list("number", flat=True)[: settings.SUBMISSION_OPEN_JOBS + 1])

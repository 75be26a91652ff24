"""Indexes of what the statistics ask for, made beside provers at work; again when it was interrupted."""

from django.db import migrations, models

from cuzk_web.fleet.operations import AddIndexAgain


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("fleet", "0013_attempt_failed")]
    operations = [
        AddIndexAgain(
            "job", models.Index(fields=["ended_at"], name="job_ended", condition=models.Q(ended_at__isnull=False))
        ),
        AddIndexAgain(
            "job",
            models.Index(
                fields=["error_code", "ended_at"], name="job_error", condition=models.Q(error_code__isnull=False)
            ),
        ),
        AddIndexAgain(
            "attempt",
            models.Index(
                fields=["reason", "state_at"],
                name="attempt_cause",
                condition=models.Q(state__in=["failed", "lost"]),
            ),
        ),
    ]

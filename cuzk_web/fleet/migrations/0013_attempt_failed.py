"""Attempts that failed, by when: alerts ask for the newest every few seconds. Built beside provers at work."""

from django.db import migrations, models

from cuzk_web.fleet.operations import AddIndexAgain

FAILED = models.Index(fields=["-state_at"], name="attempt_failed", condition=models.Q(state="failed"))


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("fleet", "0012_commands_of_jobs")]
    operations = [AddIndexAgain("attempt", FAILED)]

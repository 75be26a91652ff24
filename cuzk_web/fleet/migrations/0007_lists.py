"""Indexes in the order of the history, by each of its filters; and the newest command of a worker."""

from django.db import migrations, models

NEWEST = ["-submitted_at", "-number"]


class Migration(migrations.Migration):
    dependencies = [("fleet", "0006_commands")]
    operations = [
        *(migrations.RemoveIndex("job", name) for name in ("job_number_desc", "job_kind", "job_state")),
        migrations.AddIndex("job", models.Index(fields=NEWEST, name="job_newest")),
        migrations.AddIndex("job", models.Index(fields=["kind", *NEWEST], name="job_kind")),
        migrations.AddIndex("job", models.Index(fields=["state", *NEWEST], name="job_state")),
        migrations.AddIndex("job", models.Index(fields=["kind", "state", *NEWEST], name="job_kind_state")),
        migrations.AddIndex(
            "job", models.Index(fields=NEWEST, name="job_newest_open", condition=models.Q(ended_at=None))
        ),
        migrations.AddIndex("command", models.Index(fields=["target", "-requested_at"], name="command_target")),
    ]

"""Indexes in the order of the history, by each of its filters; and the newest command of a worker.

Made beside running provers: nothing keeps them from writing. Outside a transaction, so it may end halfway (an index is
then there, or invalid); it can be run again then.
"""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from cuzk_web.fleet.operations import AddIndexAgain

NEWEST = ["-submitted_at", "-number"]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("fleet", "0006_commands")]
    operations = [
        *(RemoveIndexConcurrently("job", name) for name in ("job_number_desc", "job_kind", "job_state")),
        AddIndexAgain("job", models.Index(fields=NEWEST, name="job_newest")),
        AddIndexAgain("job", models.Index(fields=["kind", *NEWEST], name="job_kind")),
        AddIndexAgain("job", models.Index(fields=["state", *NEWEST], name="job_state")),
        AddIndexAgain("job", models.Index(fields=["kind", "state", *NEWEST], name="job_kind_state")),
        AddIndexAgain(
            "job", models.Index(fields=NEWEST, name="job_newest_open", condition=models.Q(ended_at=None))
        ),
        AddIndexAgain("command", models.Index(fields=["target", "-requested_at"], name="command_target")),
    ]

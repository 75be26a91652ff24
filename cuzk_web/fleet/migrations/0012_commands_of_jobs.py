"""Commands have targets of several kinds. The functions are made again, for databases that have them."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0011_settle_without_waiting")]
    operations = [
        migrations.AddField(
            "command",
            "target_kind",
            models.TextField(default="worker", db_default="worker", help_text="one of prover.states.Target"),
        ),
        migrations.RunSQL("UPDATE command SET target_kind = 'job' WHERE action = 'cancel'", migrations.RunSQL.noop),
        *(migrations.RunSQL((SQL / f"{name}.sql").read_text()) for name in ("site", "commands", "loss")),
    ]

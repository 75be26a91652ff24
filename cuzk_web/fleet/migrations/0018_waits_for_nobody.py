"""Losing a session and acting on a job wait for no row with the site locked. The functions are made again."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0017_workers_over_time")]
    operations = [migrations.RunSQL((SQL / f"{name}.sql").read_text()) for name in ("commands", "loss")]

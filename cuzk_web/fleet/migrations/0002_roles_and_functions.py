"""Roles, the view `mirror`, and the functions by which the web changes what provers own. The SQL is in ../sql."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


def script(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.sql").read_text())


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial")]
    operations = [script(name) for name in ("roles", "time", "mirror", "site", "submit", "commands", "loss")]

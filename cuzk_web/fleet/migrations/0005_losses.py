"""A loss counts against a job only when it was worked on. The functions are made again, for databases that have them."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "loss.sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0004_session_ended")]
    operations = [migrations.RunSQL(SQL.read_text())]

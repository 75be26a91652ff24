"""The function that removes old samples and anomalies."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "purge.sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0002_roles_and_functions")]
    operations = [migrations.RunSQL(SQL.read_text())]

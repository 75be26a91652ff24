"""What the audit finds can be written down."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "findings.sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0014_statistics")]
    operations = [migrations.RunSQL(SQL.read_text(), "DROP FUNCTION record_finding")]

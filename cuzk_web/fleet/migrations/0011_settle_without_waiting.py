"""Settling a wish to cancel waits for nobody. The functions are made again, for databases that have them."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "commands.sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0010_search_index")]
    operations = [migrations.RunSQL(SQL.read_text())]

"""The actions of commands. The functions are made again, for databases that have them."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "commands.sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0005_losses")]
    operations = [migrations.RunSQL(SQL.read_text())]

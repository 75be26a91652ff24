"""A wish to cancel outlives its prover. The functions are made again, for databases that have them."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0007_lists")]
    operations = [migrations.RunSQL((SQL / f"{name}.sql").read_text()) for name in ("commands", "loss")]

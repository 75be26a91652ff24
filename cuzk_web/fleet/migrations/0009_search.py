"""What the history's search looks jobs up by; of new jobs by triggers, of those that are there by the next migration."""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from cuzk_web.fleet.operations import between_writers

SQL = Path(__file__).resolve().parent.parent / "sql" / "search.sql"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0008_cancels")]
    operations = [
        migrations.CreateModel(
            name="JobSearch",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="fleet.job",
                    ),
                ),
                ("words", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            ],
            options={"db_table": "job_search"},
        ),
        between_writers(
            SQL.read_text(),
            "DROP TRIGGER job_submitted ON job; DROP TRIGGER job_failed ON job; DROP FUNCTION index_job, search_words,"
            " search_parts",
        ),
    ]

"""The table of what each account has submitted."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="Usage",
            fields=[
                ("pk", models.CompositePrimaryKey("user", "day", blank=True, editable=False, primary_key=True, serialize=False)),
                ("day", models.DateField()),
                ("bytes", models.BigIntegerField()),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"db_table": "submission_usage"},
        ),
    ]

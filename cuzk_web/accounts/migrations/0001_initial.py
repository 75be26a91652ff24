"""The table of failed logins."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="LoginAttempts",
            fields=[
                (
                    "key",
                    models.CharField(
                        help_text="'address:' or 'account:' and a SHA-256",
                        max_length=80,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("count", models.IntegerField()),
                ("since", models.DateTimeField(db_index=True)),
            ],
            options={"db_table": "login_attempts"},
        ),
    ]

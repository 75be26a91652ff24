from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0003_purge")]
    operations = [
        migrations.AddIndex(model_name="session", index=models.Index(fields=["ended_at"], name="session_ended"))
    ]

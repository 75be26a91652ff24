"""What the bridge to a daemon writes; and jobs of one are never given to a prover."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"
DROP = "DROP FUNCTION watch_begin, watch_job, watched_source, watch_write, watch_views, watch_rows, watch_end"


class Migration(migrations.Migration):
    dependencies = [("fleet", "0015_findings")]
    operations = [
        migrations.RunSQL((SQL / "watch.sql").read_text(), DROP),
        migrations.RunSQL((SQL / "loss.sql").read_text(), migrations.RunSQL.noop),
    ]

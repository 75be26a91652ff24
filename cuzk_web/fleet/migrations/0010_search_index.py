"""The words of the jobs that are there, and their index: beside provers at work, and again when it was interrupted."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations

from cuzk_web.fleet.operations import AddIndexAgain

STEP = 2000  # jobs in one statement
FILL = """
INSERT INTO job_search (job_id, words) SELECT id, search_words(job) FROM job WHERE number >= %s AND number < %s
ON CONFLICT (job_id) DO NOTHING
"""


def fill(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(min(number), 0), coalesce(max(number), -1) FROM job")
        first, last = cursor.fetchone()
        for number in range(first, last + 1, STEP):
            cursor.execute(FILL, [number, number + STEP])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("fleet", "0009_search")]
    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        AddIndexAgain("jobsearch", GinIndex(fields=["words"], name="job_search_words")),
    ]

"""When workers came, went and were paused, by worker: few rows of a long log. Built beside provers at work."""

from django.db import migrations, models

from cuzk_web.fleet.operations import AddIndexAgain

MOVES = models.Index(
    fields=["entity_id", "at"], name="transition_worker", condition=models.Q(entity__in=["worker", "admin"])
)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("fleet", "0016_watch")]
    operations = [AddIndexAgain("transition", MOVES)]

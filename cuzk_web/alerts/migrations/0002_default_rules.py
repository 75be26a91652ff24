"""One rule a condition, so that alerts are there before anybody makes a rule. Channels are for people to add."""

from django.db import migrations

from cuzk_web.alerts.conditions import MEANINGS


def make(apps, schema_editor):
    rules = apps.get_model("alerts", "Rule")._default_manager.using(schema_editor.connection.alias)
    for condition, meaning in MEANINGS.items():
        figures = {"severity": meaning.severity.value, "seconds": meaning.seconds, "settle_s": meaning.settle_s}
        rules.get_or_create(name=meaning.name, defaults={"condition": condition.value, **figures})


class Migration(migrations.Migration):
    dependencies = [("alerts", "0001_initial"), ("fleet", "0013_attempt_failed")]
    operations = [migrations.RunPython(make, migrations.RunPython.noop)]

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class FleetConfig(AppConfig):
    """The tables shared with the provers."""

    name = "cuzk_web.fleet"
    label = "fleet"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Grant rights whenever migrations have run, whichever they were."""
        from . import grants

        post_migrate.connect(grants.after_migrate, sender=self, dispatch_uid="fleet.grants")

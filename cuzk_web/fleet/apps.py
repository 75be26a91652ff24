from django.apps import AppConfig


class FleetConfig(AppConfig):
    """The tables shared with the provers."""

    name = "cuzk_web.fleet"
    label = "fleet"
    default_auto_field = "django.db.models.BigAutoField"

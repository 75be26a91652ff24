from django.apps import AppConfig


class LiveConfig(AppConfig):
    """The hub, the socket and the live page."""

    name = "cuzk_web.live"
    label = "live"

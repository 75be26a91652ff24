"""The app of the bridge: it has no tables of its own."""

from __future__ import annotations

from django.apps import AppConfig


class BridgeConfig(AppConfig):
    """Watching an original cuzk daemon."""

    name = "cuzk_web.bridge"
    label = "bridge"

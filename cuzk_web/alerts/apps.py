"""The app of alerts."""

from __future__ import annotations

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """Rules over what is recorded, and messages to people who do not look at a page."""

    name = "cuzk_web.alerts"
    label = "alerts"

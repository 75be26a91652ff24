"""The history app: it has no tables of its own."""

from __future__ import annotations

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    """Past jobs."""

    name = "cuzk_web.history"
    label = "history"

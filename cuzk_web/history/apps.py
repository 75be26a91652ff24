"""The history app: past jobs, and what is told of them."""

from __future__ import annotations

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    """Past jobs."""

    name = "cuzk_web.history"
    label = "history"

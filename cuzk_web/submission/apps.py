"""The submission app."""

from __future__ import annotations

from django.apps import AppConfig


class SubmissionConfig(AppConfig):
    """The form that takes a request, and its quota."""

    name = "cuzk_web.submission"
    label = "submission"
    default_auto_field = "django.db.models.BigAutoField"

"""The accounts app."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    """Login, roles and throttling."""

    name = "cuzk_web.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Roles follow each migration: permissions of new models exist only after it."""
        from .roles import install

        post_migrate.connect(install, sender=self)

"""The admin app with our site. Apart from `apps`, which may name one configuration only."""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig


class CuzkAdminConfig(AdminConfig):
    """Django's admin behind our login and our roles."""

    default_site = "cuzk_web.accounts.site.CuzkAdminSite"

"""Django's admin site behind our login: one login page, so one throttle."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator

from .roles import MAY_COMMAND, allowed


class CuzkAdminSite(admin.AdminSite):
    """For operators (workers, commands) and administrators (accounts too); permissions say what each sees."""

    site_header = "cuzk administration"
    site_title = "cuzk"
    index_title = "Workers, jobs, accounts"

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the account may enter at all."""
        return allowed(request.user, MAY_COMMAND)

    @method_decorator(login_not_required)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """To our own login page; a viewer who is logged in already has no way in."""
        if request.user.is_authenticated:
            raise PermissionDenied("The administration is for operators and administrators.")
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))

"""Nothing is shown to an account without a role, whatever page somebody adds later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

from .roles import may_view

NO_ROLE = "Your account has no role yet. Ask an administrator to make it a viewer or an operator."


class RoleRequiredMiddleware(MiddlewareMixin):
    """Comes after LoginRequiredMiddleware, so the account is known; its exemptions hold here too."""

    def process_view(self, request: HttpRequest, view: Callable[..., Any], *_: Any) -> None:
        """Raises PermissionDenied for an account that may not view."""
        exempt = not getattr(view, "login_required", True) or not getattr(view, "role_required", True)
        if not exempt and not may_view(request.user):
            raise PermissionDenied(NO_ROLE)

"""The login form, throttled."""

from __future__ import annotations

import math
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from . import throttle


class LoginForm(AuthenticationForm):
    """Refuses further attempts before the password is looked at; `retry_after` then holds the seconds to wait."""

    retry_after: int | None = None

    def clean(self) -> dict[str, Any]:
        """Raises ValidationError: code `throttled`, or Django's own for wrong credentials."""
        assert self.request is not None
        account = self.cleaned_data.get("username")
        if not account or not self.cleaned_data.get("password"):
            return super().clean()
        address = throttle.client_address(self.request)
        wait = throttle.attempt(address, account)
        if wait is not None:
            self.retry_after = math.ceil(wait)
            raise ValidationError(f"Too many attempts. Try again in {math.ceil(wait / 60)} min.", code="throttled")
        cleaned = super().clean()
        throttle.succeeded(address, account)
        return cleaned

"""Login, logout and change of password."""

from __future__ import annotations

from django.contrib.auth import views as auth
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator

from .forms import LoginForm
from .roles import role_not_required


class LoginView(auth.LoginView):
    """The login page; 429 with Retry-After for who tried too often."""

    authentication_form = LoginForm
    redirect_authenticated_user = True

    def form_invalid(self, form: LoginForm) -> HttpResponse:  # type: ignore[override]
        """The form again, saying why."""
        response = super().form_invalid(form)
        if form.retry_after is not None:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after)
        return response


@method_decorator(role_not_required, name="dispatch")
class LogoutView(auth.LogoutView):
    """By POST alone, so that no link or image can log anybody out."""


class PasswordChangeView(auth.PasswordChangeView):
    """Change one's own password; the other sessions of the account end."""

    success_url = reverse_lazy("password_changed")


class PasswordChangedView(auth.PasswordChangeDoneView):
    """Says that it worked."""

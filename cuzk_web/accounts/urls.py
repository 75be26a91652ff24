"""Pages of one's own account."""

from __future__ import annotations

from django.urls import path

from . import views
from .roles import role_not_required

urlpatterns = [
    path("login/", views.LoginView.as_view(), name="login"),
    path("logout/", role_not_required(views.LogoutView.as_view()), name="logout"),
    path("password/", role_not_required(views.PasswordChangeView.as_view()), name="password_change"),
    path("password/changed/", role_not_required(views.PasswordChangedView.as_view()), name="password_changed"),
]

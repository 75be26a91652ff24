"""Commands to workers; the id of a worker holds slashes."""

from __future__ import annotations

from django.urls import path

from . import views
from .commands import ACTIONS

urlpatterns = [
    path(f"<path:worker_id>/{action}", views.command, {"action": action}, name=f"worker_{action}") for action in ACTIONS
]

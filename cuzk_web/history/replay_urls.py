"""The page that shows the live page as it was."""

from __future__ import annotations

from django.urls import path

from . import replay

urlpatterns = [
    path("", replay.page, name="replay"),
    path("state", replay.state, name="replay_state"),
    path("rows", replay.rows, name="replay_rows"),
]

"""Pages of the history."""

from __future__ import annotations

from django.urls import path

from . import views
from .actions import ACTIONS, act
from .cancel import cancel

urlpatterns = [
    path("", views.job_list, name="history"),
    path("<uuid:job_id>/", views.job_detail, name="job"),
    path("<uuid:job_id>/cancel", cancel, name="job_cancel"),
    *(path(f"<uuid:job_id>/{action}", act, {"action": action}, name=f"job_{action}") for action in ACTIONS),
    path("<uuid:job_id>/proof", views.proof, name="job_proof"),
    path("<uuid:job_id>/request", views.request_file, name="job_request"),
]

"""Pages of the history."""

from __future__ import annotations

from django.urls import path

from . import chrome_trace, exports, saved, views
from .actions import ACTIONS, act
from .cancel import cancel

urlpatterns = [
    path("", views.job_list, name="history"),
    path("export.csv", exports.as_csv, name="jobs_csv"),
    path("export.json", exports.as_json, name="jobs_json"),
    path("trace.json", chrome_trace.of_period, name="jobs_trace"),
    path("views/", saved.save, name="view_save"),
    path("views/<int:view_id>/delete", saved.delete, name="view_delete"),
    path("<uuid:job_id>/", views.job_detail, name="job"),
    path("<uuid:job_id>/trace.json", chrome_trace.of_job, name="job_trace"),
    path("<uuid:job_id>/cancel", cancel, name="job_cancel"),
    *(path(f"<uuid:job_id>/{action}", act, {"action": action}, name=f"job_{action}") for action in ACTIONS),
    path("<uuid:job_id>/proof", views.proof, name="job_proof"),
    path("<uuid:job_id>/request", views.request_file, name="job_request"),
]

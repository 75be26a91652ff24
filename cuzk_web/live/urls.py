from __future__ import annotations

from django.urls import path

from . import views

urlpatterns = [
    path("", views.page, name="live"),
    path("live/snapshot", views.snapshot, name="live-snapshot"),
]

"""The pages of alerts."""

from __future__ import annotations

from django.urls import path

from . import views

urlpatterns = [path("", views.alert_list, name="alerts")]

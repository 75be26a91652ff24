"""What is told of many jobs at once."""

from __future__ import annotations

from django.urls import path

from . import statistics, worker_timeline

urlpatterns = [
    path("", statistics.throughput, name="statistics"),
    path("failures/", statistics.failures, name="failures"),
    path("workers/", worker_timeline.page, name="worker_timeline"),
    path("compare/", statistics.compare, name="compare"),
]

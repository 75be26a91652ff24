"""What the site serves."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from . import health

handler400 = "cuzk_web.errors.bad_request"
handler403 = "cuzk_web.errors.permission_denied"
handler404 = "cuzk_web.errors.not_found"
handler500 = "cuzk_web.errors.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("cuzk_web.live.urls")),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("accounts/", include("cuzk_web.accounts.urls")),
    path("jobs/", include("cuzk_web.history.urls")),
    path("replay/", include("cuzk_web.history.replay_urls")),
    path("statistics/", include("cuzk_web.history.statistics_urls")),
    path("submit/", include("cuzk_web.submission.urls")),
    path("alerts/", include("cuzk_web.alerts.urls")),
    path("workers/", include("cuzk_web.fleet.urls")),
    path("admin/", admin.site.urls),
]

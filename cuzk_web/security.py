"""The content security policy: everything from this site, nothing inline, nobody frames us."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

NO_DEVICES: Final = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"


@sync_and_async_middleware
def content_security_policy(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Set the policy on every response."""
    if iscoroutinefunction(get_response):

        async def later(request: HttpRequest) -> HttpResponse:
            return _with_policy(await get_response(request))

        return later

    def now(request: HttpRequest) -> HttpResponse:
        return _with_policy(get_response(request))

    return now


def _with_policy(response: HttpResponse) -> HttpResponse:
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers.setdefault("Permissions-Policy", NO_DEVICES)
    response.headers.setdefault("Cache-Control", "private, no-store")  # a page shows one account's view of one moment
    return response

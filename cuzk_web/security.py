"""What holds for every page: all content is this site's, nothing inline, nobody frames us; and no NUL is asked for."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

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


class AdminNulMiddleware(MiddlewareMixin):
    """Postgres keeps no NUL, and the administration looks for whatever it is given: that is a bad request.

    Our own pages check what they take. Comes after the CSRF middleware, which has read the form by then.
    """

    def process_view(self, request: HttpRequest, _view: Callable[..., Any], *_: Any) -> None:
        """Raises BadRequest when a parameter or a field of a form holds a NUL."""
        if request.resolver_match is not None and request.resolver_match.app_name == "admin":
            forms = (request.GET, request.POST)
            if any("\0" in text for form in forms for name, values in form.lists() for text in (name, *values)):
                raise BadRequest("what was asked for holds a NUL character")

"""The site under any ASGI server: pages by Django, the socket by Channels, and the hub started with the first scope."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cuzk_web.settings")
pages = get_asgi_application()  # before any model is imported

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.sessions import CookieMiddleware, SessionMiddleware  # noqa: E402
from django.urls import path  # noqa: E402

from cuzk_web.live.consumer import LiveConsumer  # noqa: E402
from cuzk_web.live.hub import hub  # noqa: E402
from cuzk_web.patience import serve_patiently  # noqa: E402

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

serve_patiently()
sockets = CookieMiddleware(SessionMiddleware(URLRouter([path("ws/live", LiveConsumer.as_asgi())])))
routes = ProtocolTypeRouter({"http": pages, "websocket": sockets})


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Servers without a lifespan (Daphne) start the hub here; `manage.py serve` does at its start."""
    hub()
    await routes(scope, receive, send)

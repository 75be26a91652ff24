"""The live page, and the snapshot that its script takes when the socket says "reset"."""

from __future__ import annotations

import asyncio
from typing import Final

from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache

from cuzk_web.accounts.roles import may_view
from cuzk_web.fleet.commands import card_actions

from .hub import Hub, hub

READY_S: Final = 5.0  # how long a page waits for the hub's first look at the database
_ESCAPES: Final = {ord(">"): "\\u003E", ord("<"): "\\u003C", ord("&"): "\\u0026"}


@never_cache
async def page(request: HttpRequest) -> HttpResponse:
    """The page with a snapshot in it."""
    await _check(request)
    ready = await _ready(hub())
    content = {"snapshot": in_script(ready.snapshot_json()) if ready else None, "actions": card_actions()}
    return await sync_to_async(render)(request, "live/page.html", content, status=200 if ready else 503)


@never_cache
async def snapshot(request: HttpRequest) -> HttpResponse:
    """What the page starts from."""
    await _check(request)
    ready = await _ready(hub())
    if ready is None:
        return HttpResponse('{"error":"the database cannot be read"}', "application/json", 503)
    return HttpResponse(ready.snapshot_json(), "application/json")


def in_script(json: str) -> SafeString:
    """JSON that no label in it can end the script element of (as Django's json_script does)."""
    return mark_safe(json.translate(_ESCAPES))


async def _check(request: HttpRequest) -> None:
    user = await request.auser()
    if not await sync_to_async(may_view)(user):
        raise PermissionDenied


async def _ready(following: Hub) -> Hub | None:
    try:
        await asyncio.wait_for(following.ready.wait(), READY_S)
    except TimeoutError:
        return None
    return following

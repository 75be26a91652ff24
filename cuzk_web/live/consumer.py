"""The socket /ws/live: who may see the fleet, and nothing else. What is sent is the hub's affair."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.http.request import validate_host

from cuzk_web.accounts.roles import may_view

from .hub import Hub, hub
from .protocol import Ack, BadFrame, CloseCode, Since, parse
from .viewer import Viewer

RECHECK_S: Final = 60.0  # how long a socket may outlive its login


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """One open page."""

    viewer: Viewer | None = None
    checked_at = 0.0
    begun = False  # it has said from where on it wants to be served

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Frames of a viewer touch no database of Django's: without the thread hop that Channels makes for each."""
        if message["type"] == "websocket.receive":
            await self.websocket_receive(message)
        else:
            await super().dispatch(message)

    async def connect(self) -> None:
        """Refuse the handshake to other sites; tell those who may not look why, by the close code."""
        if not same_origin(self.scope["headers"]):
            await self.close()
            return
        await self.accept()
        refusal = await self.refusal()
        if refusal is not None:
            await self.close(refusal)
            return
        self.viewer = Viewer(self._send_text, self.close)
        self.hub.enter(self.viewer)

    async def disconnect(self, code: int) -> None:
        """The page is gone."""
        if self.viewer is not None:
            self.hub.leave(self.viewer)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A frame of the browser; a bad one ends the conversation, saying what is wrong with it."""
        if self.viewer is None:
            return
        try:
            await self._hear(self.viewer, parse(text_data))
        except BadFrame as error:
            self.hub.leave(self.viewer)
            await self.close(CloseCode.BAD_FRAME, str(error)[:100])
        except BaseException:  # the database is away, say: the socket ends, and `disconnect` is not called
            self.hub.leave(self.viewer)
            raise

    async def _hear(self, viewer: Viewer, frame: Since | Ack) -> None:
        match frame:
            case Since(cursor):
                if self.begun:
                    raise BadFrame("only once on a socket", field="since")
                self.begun = True
                await self.hub.since(viewer, cursor)
            case Ack(n):
                await self.hub.ack(viewer, n)
        if time.monotonic() - self.checked_at > RECHECK_S and (refusal := await self.refusal()) is not None:
            self.hub.leave(viewer)
            await self.close(refusal)

    async def close(self, code: int | None = None, reason: str | None = None) -> None:
        """As Channels', with a plain integer: autobahn takes no subclass of it, and would tell the browser 1011."""
        await super().close(None if code is None else int(code), reason)

    @property
    def hub(self) -> Hub:
        """The hub of this event loop."""
        return hub()

    async def refusal(self) -> CloseCode | None:
        """Why this person may not look, by their login as it is now."""
        self.checked_at = time.monotonic()
        # the session of the scope remembers what it read first; a logout shows only in a fresh one
        session = type_of_sessions()(self.scope["session"].session_key)
        user = await get_user({**self.scope, "session": session})
        if not user.is_authenticated:
            return CloseCode.NOT_LOGGED_IN
        return None if await database_sync_to_async(may_view)(user) else CloseCode.NOT_ALLOWED

    async def _send_text(self, text: str) -> None:
        await self.base_send({"type": "websocket.send", "text": text})


def type_of_sessions() -> type[SessionBase]:
    """The class of the sessions that this site uses."""
    store: type[SessionBase] = import_module(settings.SESSION_ENGINE).SessionStore
    return store


def same_origin(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a handshake comes from a page of this very host and port, or of a trusted origin.

    Browsers send cookies with the handshake of any page, so a page of another site must be refused here.
    """
    given = {name: value.decode("latin1") for name, value in headers if name in (b"origin", b"host")}
    origin, host = given.get(b"origin"), given.get(b"host", "")
    if origin is None:
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or parts.netloc != host:
        return False
    return validate_host(parts.hostname or "", [name.strip("[]") for name in settings.ALLOWED_HOSTS])

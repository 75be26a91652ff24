"""One open page: what it was sent, what it has read, and from where it must be served.

The server's send never blocks, so a page that does not read would fill our memory. Therefore at most WINDOW frames are
under way to a viewer; one that is further behind is sent nothing, and is served from its cursor once it reads again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from .protocol import RESET, BadFrame, CloseCode, numbered

WINDOW: Final = 64  # frames under way; a reader acknowledges every 10 frames or every second
SLOW_S: Final = 60.0  # a viewer that reads nothing for so long is closed


class Viewer:
    """`cursor` is None while the viewer is in step with the hub and gets the shared frames."""

    def __init__(self, send: Callable[[str], Awaitable[None]], close: Callable[[CloseCode], Awaitable[None]]) -> None:
        self._send = send
        self.close = close
        self.sent = 0
        self.acked = 0
        self.acked_at = time.monotonic()
        self.cursor: dict[str, int] | None = None
        self.subscribed = False
        self.serving = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether another frame may be sent now."""
        return self.sent - self.acked < WINDOW

    @property
    def in_step(self) -> bool:
        """Whether it gets the shared frames."""
        return self.subscribed and self.cursor is None

    @property
    def too_slow(self) -> bool:
        """Whether the window has been full without any sign of reading for SLOW_S."""
        return not self.open and time.monotonic() - self.acked_at > SLOW_S

    def subscribe(self, cursor: Mapping[str, int]) -> None:
        """The viewer says what it has; whatever was under way may have been lost with it."""
        self.cursor = dict(cursor)
        self.subscribed = True

    def ack(self, n: int) -> None:
        """Raises BadFrame when `n` was never sent, or goes back."""
        if not self.acked <= n <= self.sent:
            raise BadFrame(f"not between {self.acked} and {self.sent}", field="ack")
        self.acked = n
        self.acked_at = time.monotonic()

    async def push(self, shared: str) -> None:
        """Send one frame."""
        self.sent += 1
        await self._send(numbered(self.sent, shared))

    async def reset(self) -> None:
        """Tell the viewer to take a new snapshot; until it says what it has then, it is sent nothing."""
        self.cursor = None
        self.subscribed = False
        await self.push(RESET)

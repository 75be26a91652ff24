"""What travels on /ws/live: checks of what a browser sends, shapes of what the server sends.

From the browser: `{"since": {session: seq}}` (what it has folded), once; then `{"ack": n}` (frames that it has read).
From the server, as things happen but at most 50 a second: `{"n": number of the frame on this socket, "now_us": the
database's time, "read_us": when the database was last read, "rows": [transition rows, oldest first], "live": {session:
gauges}}`, the last two only when there is something; or `{"n": .., "reset": true}`: the cursor is too old, take a new
snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from prover.errors import InvalidInput

MAX_FRAME: Final = 64 * 1024  # characters of a frame from a browser
MAX_SESSIONS: Final = 500  # sessions of a cursor
MAX_SEQ: Final = 2**53 - 1  # what a browser can count


class CloseCode(IntEnum):
    """Why the server closed a socket."""

    RESTART = 4012  # autobahn sends none of the registered codes but 1000
    BAD_FRAME = 4400
    NOT_LOGGED_IN = 4401
    NOT_ALLOWED = 4403
    TOO_SLOW = 4408


class BadFrame(InvalidInput):
    """The browser sent a frame that is no part of the protocol."""

    code = "bad_frame"


@dataclass(frozen=True, slots=True)
class Since:
    """Send me what comes after this cursor: session -> highest seq that I have."""

    cursor: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ack:
    """I have read the frames up to this number."""

    n: int


def parse(text: str | None) -> Since | Ack:
    """The meaning of a browser's frame. Raises BadFrame, naming the field and the limit."""
    if text is None:
        raise BadFrame("binary frames are not part of the protocol")
    if len(text) > MAX_FRAME:
        raise BadFrame(f"longer than {MAX_FRAME} characters")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise BadFrame("not JSON") from None
    if not isinstance(message, dict) or len(message) != 1:
        raise BadFrame('neither {"since": ..} nor {"ack": ..}')
    if "since" in message:
        return Since(_cursor(message["since"]))
    if "ack" in message:
        return Ack(_seq(message["ack"], "ack"))
    raise BadFrame('neither {"since": ..} nor {"ack": ..}')


def _cursor(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise BadFrame("not an object", field="since")
    if len(value) > MAX_SESSIONS:
        raise BadFrame(f"more than {MAX_SESSIONS} sessions", field="since")
    return {_session(key): _seq(seq, f"since[{key[:40]}]") for key, seq in value.items()}


def _session(key: str) -> str:
    try:
        return str(UUID(key))
    except ValueError:
        raise BadFrame("a session is a UUID", field="since") from None


def _seq(value: Any, field: str) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SEQ:
        raise BadFrame(f"not an integer from 0 to {MAX_SEQ}", field=field)
    return value


def compact(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def body(now_us: int, read_us: int, rows: Sequence[str] = (), live: str | None = None) -> str:
    """A frame without its number and opening brace, so that all viewers share one text. `rows` and `live` are JSON."""
    parts = [f'"now_us":{now_us},"read_us":{read_us}']
    if rows:
        parts.append(f'"rows":[{",".join(rows)}]')
    if live is not None:
        parts.append(f'"live":{live}')
    return ",".join(parts) + "}"


RESET: Final = '"reset":true}'


def numbered(n: int, shared: str) -> str:
    """The frame number `n` of one viewer, made of a shared body."""
    return f'{{"n":{n},{shared}'

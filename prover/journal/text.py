"""Text that Postgres accepts: labels and messages come from outside; one bad character must not stop the journal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIME = 253_402_300_800_000_000  # microseconds: the year 10000, where Python's calendar ends
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=str)


def clean(text: str) -> str:
    """Postgres has no NUL and no lone surrogates: the replacement character stands for them."""
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def json_text(value: Any) -> str:
    """JSON in ASCII that jsonb accepts; NaN and infinities become null."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_clean_value(value))
    if "\\u0000" in text or "\\ud" in text:  # perhaps a NUL, perhaps half a surrogate pair
        return _ENCODER.encode(_clean_value(value))
    return text


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean(str(key)): _clean_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_value(item) for item in value]
    return value


def copy_text(text: str | None) -> str:
    """A field of COPY's text format."""
    if text is None:
        return "\\N"
    if not text.isalnum():  # most are
        text = clean(text).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return text


def timestamp(at_us: int) -> datetime:
    """Microseconds since 1970 as an aware time, exactly."""
    return EPOCH + timedelta(microseconds=at_us)

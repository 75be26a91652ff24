"""Words and numbers of the server-rendered pages, beside those of `cuzk_web.live.labels`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cuzk_web.live.labels import NONE, duration

PRIORITIES = {4: "critical", 3: "high", 2: "normal", 1: "low"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def priority(raw: int) -> str:
    """The word for a priority; one that has none as its number; 0 is not known."""
    return PRIORITIES.get(raw, str(raw) if raw else NONE)


def span(start: datetime | None, end: datetime | None) -> str:
    """The duration between two moments; a dash when one of them is not known."""
    return NONE if start is None or end is None else duration((end - start) / timedelta(milliseconds=1))


def size(count: int | None) -> str:
    """Bytes in binary units: whole numbers as such, others with one decimal."""
    if count is None:
        return NONE
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"


def share(part: float | None) -> str:
    """A share of 1 in whole percent."""
    return NONE if part is None else f"{100 * part:.0f}%"


def from_us(us: int) -> datetime:
    """A moment from microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=us)


def to_us(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)

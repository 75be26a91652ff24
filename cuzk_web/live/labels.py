"""Words of the page that the server and the browser must write alike (static/js/label.js and format.js)."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 80  # characters that stand whole
HEAD: Final = 40
TAIL: Final = 24
NONE: Final = "–"

KINDS: Final = {
    "porep-c2": "PoRep C2",
    "snap-update": "SnapDeals",
    "window-post": "WindowPoSt",
    "winning-post": "WinningPoSt",
}


def shown(text: str) -> str:
    """A label as it is shown: whole up to LONGEST characters, else head, mark of the whole, and tail."""
    return text if len(text) <= LONGEST else f"{text[:HEAD]}…{fingerprint(text)}…{text[-TAIL:]}"


def fingerprint(text: str) -> str:
    """FNV-1a over UTF-8, 32 bits in hex: tells two long labels apart, nothing more."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def kind_name(kind: str) -> str:
    """The human name of a kind of proof; an unknown one is shown as it is."""
    return KINDS.get(kind, kind)


def duration(ms: float | None) -> str:
    """A duration in milliseconds; rounding carries, so that nothing ever reads "60.0s"."""
    if ms is None:
        return NONE
    whole = max(0, _half_up(ms))
    if whole < 1000:
        return f"{whole}ms"
    tenths = _half_up(whole / 100)
    if tenths < 600:
        return f"{tenths / 10:.1f}s"
    seconds = _half_up(whole / 1000)
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    minutes = _half_up(whole / 60_000)
    if minutes < 1440:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    hours = _half_up(whole / 3_600_000)
    return f"{hours // 24}d {hours % 24}h"


def sector_size(size: int) -> str:
    """A sector size as it is named: "2 KiB", "32 GiB"; 0 is not known."""
    if size < 1:
        return NONE
    step = min(3, (size.bit_length() - 1) // 10)
    return f"{size >> 10 * step} {('B', 'KiB', 'MiB', 'GiB')[step]}"


def _half_up(value: float) -> int:
    """As JavaScript's Math.round."""
    return int(value + 0.5) if value >= 0 else -int(-value + 0.5)

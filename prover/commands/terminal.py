"""What commands say besides their results: notes, warnings and progress, all on stderr."""

from __future__ import annotations

import sys
import time

_INTERVAL = 2.0  # seconds between lines of progress where stderr is no terminal


def note(text: str) -> None:
    """One line for people."""
    print(f"cuzk: {text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """One line that must not be overlooked."""
    note(f"warning: {text}")


class Progress:
    """Tells how far long work is: a line that is rewritten on a terminal, else a line every few seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._said = self._started
        self._live = sys.stderr.isatty()
        print(f"cuzk: {what} ...", end="" if self._live else "\n", file=sys.stderr, flush=True)

    def __call__(self, fraction: float) -> None:
        """`fraction` of the work is done."""
        now = time.monotonic()
        if now - self._said < (0.2 if self._live else _INTERVAL) and fraction < 1:
            return
        self._said = now
        text = f"cuzk: {self._what}: {fraction:4.0%}, {now - self._started:.0f} s"
        print(f"\r\x1b[K{text}" if self._live else text, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def done(self) -> float:
        """Ends the line; returns the seconds the work took."""
        took = time.monotonic() - self._started
        end = f"\r\x1b[Kcuzk: {self._what}: {took:.1f} s" if self._live else f"cuzk: {self._what}: done, {took:.1f} s"
        print(end, file=sys.stderr, flush=True)
        return took

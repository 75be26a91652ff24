"""What is asked of the proofs of each circuit over sectors of 2 KiB, and the table that says what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """Of one circuit. `stated_s`: what bellperson 0.27 took with two threads of an AMD Zen 3 (seconds, least, most)."""

    name: str
    stated_s: tuple[float, float]
    must: float  # times bellperson's
    goal: float
    peak_gib: float  # of the process

    @property
    def stated(self) -> str:
        return "-".join(f"{seconds:g}" for seconds in dict.fromkeys(self.stated_s))


#: by kind, in the order of their size
ASKED = {
    "window-post": Asked("window, 21,866, 2^15", (1.8, 2.1), 1.3, 0.8, 1.0),
    "winning-post": Asked("winning, 90,750, 2^17", (6.7, 7.0), 1.3, 0.8, 2.5),
    "snap-update": Asked("SnapDeals update, 1,705,039, 2^21", (39.5, 39.5), 1.2, 0.8, 6.0),
    "porep-c2": Asked("PoRep, 2,687,921, 2^22", (70.0, 70.0), 1.2, 0.8, 8.0),
}
#: a synthesis may be so much of a proof
SYNTHESIS_SHARE = 0.1
NOT_MEASURED = "not measured"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up."""
    lines = [head, ["-" * max(len(row[i]) for row in (head, *rows)) for i in range(len(head))], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in padded)


def gib(mib: float) -> str:
    return f"{mib / 1024:.2f} GiB"

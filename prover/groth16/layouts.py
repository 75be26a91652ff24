"""Which tables of a key's bases are worth their memory.

The more memory a sum's tables take, the fewer additions it needs, but ever less so: memory goes where it saves most for
its size, and is left unused where it saves hardly anything.
Only scalars that are neither 0 nor 1 count: a section whose wires are nearly all bits gains nothing from tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prover.algebra.bases import Layout
from prover.algebra.curve import Group

#: an addition in G2 beside one in G1: measured
_G2_COST: Final = 3.1
#: a table of a windowed scalar of 255 bits: more copies than windows of 15 bits are never used
_MOST_TABLES: Final = 17
#: the bases' own memory once more must save this part of all additions: with less, window's tables took twice as much
#: for four hundredths of the time, and its process more than 1 GiB
_LEAST_GAIN: Final = 0.03


@dataclass(frozen=True)
class Section:
    """Bases of a key, and how many of their scalars are neither 0 nor 1 in a proof."""

    group: Group
    size: int
    full: int

    def plain(self) -> Layout:
        """The bases alone, with their images where these pay."""
        return Layout.of(self.group, self.size, full=self.full)

    def cost(self, layout: Layout) -> float:
        """Additions in G1, roughly."""
        return layout.cost(self.full) * (1 if self.group.degree == 1 else _G2_COST)

    def layouts(self) -> list[Layout]:
        """All that could be kept."""
        made = [
            Layout.of(self.group, self.size, tables=tables, with_images=images, full=self.full)
            for tables in range(2, _MOST_TABLES + 1)
            for images in (False, True)
        ]
        return list(dict.fromkeys(made))


def choose(sections: Mapping[str, Section], memory: int) -> dict[str, Layout]:
    """The layout of each section, `memory` bytes in all; the bases alone where these take more."""
    chosen = {name: section.plain() for name, section in sections.items()}
    known = {name: section.layouts() for name, section in sections.items()}
    plain = sum(layout.nbytes for layout in chosen.values())
    everything = sum(section.cost(chosen[name]) for name, section in sections.items())
    least, left = _LEAST_GAIN * everything / max(plain, 1), memory - plain
    while True:
        better = [
            (rate, name, layout)
            for name, section in sections.items()
            for layout in known[name]
            if layout.nbytes - chosen[name].nbytes <= left and (rate := _rate(section, chosen[name], layout)) >= least
        ]
        if not better:
            return chosen
        _, name, layout = max(better, key=lambda found: found[0])
        left -= layout.nbytes - chosen[name].nbytes
        chosen[name] = layout


def _rate(section: Section, old: Layout, new: Layout) -> float:
    """Additions that a byte more saves; 0 where nothing is saved."""
    saved = section.cost(old) - section.cost(new)
    return max(saved, 0) / max(new.nbytes - old.nbytes, 1)

"""The requests that come with the product, to try it with: real proofs of 2 KiB sectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "samples"


@dataclass(frozen=True)
class Sample:
    """A request file of ours."""

    name: str
    title: str
    text: str

    def read(self) -> bytes:
        """The request in JSON."""
        return (FOLDER / f"{self.name}.json").read_bytes()


SAMPLES = {
    sample.name: sample
    for sample in (
        Sample("window-post", "WindowPoSt", "One partition: 2 sectors of 2 KiB, 10 challenges each."),
        Sample("winning-post", "WinningPoSt", "One partition: 66 challenges in one sector of 2 KiB."),
        Sample("snap-update", "SnapDeals", "One partition: 10 challenges in a sector of 2 KiB with new data."),
        Sample("porep-c2", "PoRep C2", "One partition: 2 challenges in a freshly sealed sector of 2 KiB."),
        Sample(
            "deadline", "A whole deadline", "WindowPoSt of 25 sectors of 2 KiB: one job of 13 partitions, P0 to P12."
        ),
    )
}

"""`cuzk sample`: a valid request over freshly sealed sectors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from prover.errors import UnsupportedProof
from prover.filecoin import sample
from prover.filecoin.shapes import KIB, ProofKind, SectorShape, circuit_shape, parse_sector_size

from .arguments import Parsers, add_kind
from .exits import Exit
from .files import write_file
from .terminal import note

MAX_SIZE = 32 * KIB  # bytes: larger sectors take too long in plain Python
MAX_SECTORS = 2048
_OF_ONE_SECTOR: dict[ProofKind, Callable[..., bytes]] = {
    ProofKind.POREP: sample.porep_c2,
    ProofKind.SNAP: sample.snap_update,
    ProofKind.WINNING_POST: sample.winning_post,
}


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "seal fresh sectors and write a valid request over them"
    parser = parsers.add_parser("sample", help=text, description=text)
    add_kind(parser)
    parser.add_argument("--seed", type=int, required=True, metavar="N", help="the same seed gives the same request")
    parser.add_argument("--sectors", type=int, default=None, metavar="K", help="window-post: how many (default 2)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    data = _sample(arguments.kind, f"seed {arguments.seed}", arguments.size, arguments.sectors)
    if arguments.out is None:
        sys.stdout.write(data.decode())
    else:
        write_file(arguments.out, data)
        note(f"wrote {arguments.out}")
    return Exit.OK


def sample_request(kind: ProofKind, seed: int, size: str) -> bytes:
    """A request over fresh sectors, JSON: the default of its kind. Raises UnsupportedProof."""
    return _sample(kind, f"seed {seed}", parse_sector_size(size), None)


def _sample(kind: ProofKind, tag: str, sector: SectorShape, sectors: int | None) -> bytes:
    circuit_shape(kind, sector.size)
    if sector.size > MAX_SIZE:
        raise UnsupportedProof(f"samples are sealed in plain Python, up to {MAX_SIZE} bytes a sector", field="--size")
    if kind is ProofKind.WINDOW_POST:
        return sample.window_post(tag, range(1, _count(sectors) + 1), sector)
    if sectors not in (None, 1):
        raise UnsupportedProof(f"{kind} proves one sector", field="--sectors")
    return _OF_ONE_SECTOR[kind](tag, sector=sector)


def _count(sectors: int | None) -> int:
    if sectors is None:
        return 2
    if not 1 <= sectors <= MAX_SECTORS:
        raise UnsupportedProof(f"{sectors} given, 1 to {MAX_SECTORS} allowed", field="--sectors")
    return sectors

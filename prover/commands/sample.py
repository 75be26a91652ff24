"""`cuzk sample`: a valid request over freshly sealed 2 KiB sectors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from prover.errors import UnsupportedProof
from prover.filecoin import sample
from prover.filecoin.shapes import KIB, ProofKind, post_shape

from .arguments import Parsers, add_kind
from .exits import Exit
from .files import write_file
from .terminal import note

MAX_SIZE = 32 * KIB  # bytes: larger sectors take too long in plain Python
MAX_SECTORS = 2048


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "seal fresh sectors and write a valid request over them"
    parser = parsers.add_parser("sample", help=text, description=text)
    add_kind(parser)
    parser.add_argument("--seed", type=int, required=True, metavar="N", help="the same seed gives the same request")
    parser.add_argument("--sectors", type=int, default=None, metavar="K", help="window-post: how many (default 2)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    shape = post_shape(arguments.kind, arguments.size.size)
    if shape.sector.size > MAX_SIZE:
        raise UnsupportedProof(f"samples are sealed in plain Python, up to {MAX_SIZE} bytes a sector", field="--size")
    tag = f"seed {arguments.seed}"
    if shape.kind is ProofKind.WINNING_POST:
        if arguments.sectors not in (None, 1):
            raise UnsupportedProof("winning-post proves one sector", field="--sectors")
        data = sample.winning_post(tag, sector=shape.sector)
    else:
        data = sample.window_post(tag, range(1, _count(arguments.sectors) + 1), shape.sector)
    if arguments.out is None:
        sys.stdout.write(data.decode())
    else:
        write_file(arguments.out, data)
        note(f"wrote {arguments.out}")
    return Exit.OK


def _count(sectors: int | None) -> int:
    if sectors is None:
        return 2
    if not 1 <= sectors <= MAX_SECTORS:
        raise UnsupportedProof(f"{sectors} given, 1 to {MAX_SECTORS} allowed", field="--sectors")
    return sectors

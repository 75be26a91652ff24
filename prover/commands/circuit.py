"""`cuzk circuit`: the figures of a circuit, recorded afresh."""

from __future__ import annotations

import argparse
import json

from .arguments import Parsers, add_kind, circuit
from .exits import Exit


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "record a circuit and print its figures and its digest"
    parser = parsers.add_parser("circuit", help=text, description=text)
    add_kind(parser)
    parser.add_argument("--json", action="store_true", help="for scripts; with the checkpoints of the digest")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    shape = circuit(arguments)
    from prover.circuits.summary import summarize

    figures = dict(summarize(shape))
    if arguments.json:
        print(json.dumps(figures, indent=1))
        return Exit.OK
    del figures["r1cs_checkpoints"]
    for name, value in figures.items():
        print(f"{name:<20}{_text(value)}")
    return Exit.OK


def _text(value: object) -> str:
    if isinstance(value, list):
        return " + ".join(map(_text, value))
    if value is None:
        return "not computed: the circuit is too large to be written out"
    return f"{value:,}" if isinstance(value, int) else str(value)

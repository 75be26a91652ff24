"""`cuzk doctor`: whether this machine has what a prover needs."""

from __future__ import annotations

import argparse
import json

from .arguments import Parsers
from .daemon import add_settings, read_settings
from .exits import Exit


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "look whether this machine has what a prover needs"
    parser = parsers.add_parser("doctor", help=text, description=text)
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    from prover import doctor

    settings = read_settings(arguments).config
    found = []
    for finding in doctor.examine(settings):
        found.append(finding)
        if not arguments.json:
            print(f"{finding.verdict:<8}{finding.piece:<9}{finding.text}", flush=True)
    if arguments.json:
        fields = [{"piece": f.piece, "verdict": f.verdict, "text": f.text} for f in found]
        print(json.dumps(fields, indent=1))
    return Exit.UNAVAILABLE if any(f.verdict is doctor.Verdict.BAD for f in found) else Exit.OK

"""`cuzk errors`: what the codes of errors mean. docs/errors.md is its output as a table."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Iterator

import prover
from prover.errors import CuzkError, InvalidInput
from prover.pipeline.retry import words

from .arguments import Parsers
from .exits import Exit

HEADING = """\
# Errors

Every error has a code that is the same in the log, in the database, on the page and on the command line. Codes never
change their meaning. The last column says whether an attempt that ended with an error is made again by itself, how soon
and where: at most twice a partition (`failures.max_retries`), each pause twice as long as the one before. Where it is
empty, never.
Written by `cuzk errors --markdown`.

| code | meaning | made again |
|---|---|---|
"""


class UnknownCode(InvalidInput):
    """No error has this code."""

    code = "unknown_code"


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "what the codes of errors mean"
    parser = parsers.add_parser("errors", help=text, description=text)
    parser.add_argument("codes", nargs="*", metavar="CODE", help="default: all")
    parser.add_argument("--markdown", action="store_true", help="as the table of docs/errors.md")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    known = catalogue()
    for code in arguments.codes:
        if code not in known:
            raise UnknownCode(f"no error has the code {code[:100]!r}")
    if arguments.markdown:
        print(markdown(), end="")
        return Exit.OK
    for code in arguments.codes or known:
        print(f"{code}: {meaning(known[code])}")
    return Exit.OK


def catalogue() -> dict[str, type[CuzkError]]:
    """All errors of the prover by their codes, in alphabetical order."""
    for module in pkgutil.walk_packages(prover.__path__, "prover."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {error.code: error for error in sorted(all_errors(), key=lambda error: error.code)}


def all_errors() -> Iterator[type[CuzkError]]:
    """The error classes of the prover that have a code of their own, as far as they are imported."""
    return (
        error for error in _subclasses(CuzkError) if error.__module__.startswith("prover.") and "code" in vars(error)
    )


def meaning(error: type[CuzkError]) -> str:
    """The first paragraph of an error's docstring."""
    return " ".join((error.__doc__ or "").strip().split("\n\n")[0].split())


def markdown() -> str:
    """docs/errors.md."""
    rows = (f"| `{code}` | {meaning(error)} | {words(error)} |" for code, error in catalogue().items())
    return HEADING + "\n".join(rows) + "\n"


def _subclasses(error: type[CuzkError]) -> Iterator[type[CuzkError]]:
    yield error
    for child in error.__subclasses__():
        yield from _subclasses(child)

"""`cuzk errors`: every code is unique, explained, and in docs/errors.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from prover.commands import errors
from prover.commands.exits import Exit

from .running import cuzk

DOCUMENT = Path(__file__).parents[2] / "docs/errors.md"


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text() == errors.markdown(), "run `cuzk errors --markdown > docs/errors.md`"


def test_codes_are_unique_and_explained() -> None:
    known = errors.catalogue()
    every = [error.code for error in errors.all_errors()]
    assert [code for code, count in Counter(every).items() if count > 1] == []
    for code, error in known.items():
        assert re.fullmatch(r"[a-z]\w+", code)
        assert errors.meaning(error).endswith("."), code


def test_one_code_is_explained() -> None:
    run = cuzk("errors", "wrong_challenge")
    assert run.stdout == "wrong_challenge: The path or column is not that of the node that must be proved there.\n"
    assert cuzk("errors", "none").returncode == Exit.BAD_INPUT

"""docs/flaws.md: each flaw once, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.postgres import ROOT

ROWS = re.findall(r"^\| (B\d\d) \| (.+?) \| (.+) \|$", (ROOT / "docs/flaws.md").read_text(), re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
MOST_SENTENCES = 10


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests of a file, at its top."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_flaw_is_there_once() -> None:
    assert [number for number, _, _ in ROWS] == [f"B{n:02}" for n in range(1, 50)]


@pytest.mark.parametrize(("number", "answer"), [(number, answer) for number, _, answer in ROWS])
def test_what_answers_a_flaw_exists(number: str, answer: str) -> None:
    named = NAMED.findall(answer)
    assert named or "*cannot be*" in answer or "*gap*" in answer, number
    assert answer.count("tests/") == len(named), "a name that is not of the form FILE::TEST"
    for path, name in named:
        assert name in names_in(path), f"{path}::{name}"


def test_few_are_answered_by_a_sentence() -> None:
    assert sum("*cannot be*" in answer for _, _, answer in ROWS) <= MOST_SENTENCES

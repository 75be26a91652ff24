"""Each error of the web has a code of its own, and docs/web.md says what it means."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import cuzk_web
from prover.commands.errors import catalogue, meaning
from prover.errors import CuzkError
from tests.postgres import ROOT

STARTERS = ("asgi", "server", "bodies")  # importing these prepares a server


def subclasses(error: type[CuzkError]) -> Iterator[type[CuzkError]]:
    for child in error.__subclasses__():
        yield child
        yield from subclasses(child)


def errors_of_the_web() -> dict[str, type[CuzkError]]:
    for module in pkgutil.walk_packages(cuzk_web.__path__, "cuzk_web."):
        name = module.name.split(".")
        if "migrations" not in name and name[-1] not in STARTERS:
            importlib.import_module(module.name)
    found = [error for error in subclasses(CuzkError) if error.__module__.startswith("cuzk_web.")]
    return {error.code: error for error in found if "code" in vars(error)}


def test_each_is_documented_with_its_words() -> None:
    text = (ROOT / "docs" / "web.md").read_text()
    documented = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", text, re.M))
    assert documented == {code: meaning(error) for code, error in errors_of_the_web().items()}
    assert len(documented) >= 6


def test_no_code_means_two_things() -> None:
    assert not set(errors_of_the_web()) & set(catalogue())

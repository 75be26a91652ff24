"""Every relative link of the README and the documents leads to a file, and to a heading when it names one."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.postgres import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(
    r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def links(text: str) -> list[str]:
    """The targets of a document's links and images, code apart."""
    return [next(filter(None, found)) for found in LINK.findall(CODE.sub("", text))]


def anchors(text: str) -> set[str]:
    """The names that a reader's link may use: those of headings, as the usual viewers make them."""
    names: dict[str, int] = {}
    found = set()
    for heading in HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(f"{name}-{names[name]}" if name in names else name)
        names[name] = names.get(name, 0) + 1
    return found


def broken(document: Path) -> list[str]:
    """The links of a document that lead nowhere, or out of the project."""
    wrong = []
    for link in links(document.read_text()):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (document.parent / unquote(parts.path)).resolve() if parts.path else document
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (parts.fragment and parts.fragment not in anchors(target.read_text())):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_the_documents_are_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        reached.add(document)
        targets = [(document.parent / urlsplit(link).path).resolve() for link in links(document.read_text())]
        waiting += [target for target in targets if target in DOCUMENTS and target not in reached]
    assert reached == set(DOCUMENTS)


def test_what_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.project.test_links.ROOT", tmp_path)
    (tmp_path / "b.md").write_text("# One `two`, three\n## Again\n## Again\n")
    page = tmp_path / "a.md"
    page.write_text(
        "[x](b.md) [x](b.md#one-two-three) [x](b.md#again-1) [x](#here) `[x](code.md)` https://x.example/y\n# Here\n"
    )
    assert broken(page) == []
    page.write_text(
        "[x](c.md) ![x](img.png) [x](b.md#four) [x](b.md#again-2) [x](#gone) [x](/etc/passwd)\n[r]: d.md\n"
        '<img src="e.png">'
    )
    assert broken(page) == [
        "c.md", "img.png", "b.md#four", "b.md#again-2", "#gone", "/etc/passwd", "d.md", "e.png",
    ]  # fmt: skip

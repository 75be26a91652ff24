"""Print the shape of this code base beside the one it aims at: small functions, typed, small modules, tested.

usage: python bench/shape.py
"""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("prover", "cuzk_web")
GENERATED = ("migrations", "proto", "__pycache__")
WIDTHS = (7, 15, 11, 11, 9, 14, 12, 12)
AIM = "aim      -      -/600          -          8          32       100%          -           1.00"


def modules(folder: Path) -> list[Path]:
    """The Python files below a folder that people wrote."""
    return [path for path in sorted(folder.rglob("*.py")) if not set(path.parts) & set(GENERATED)]


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a file."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def main() -> None:
    """Print the table and the longest functions."""
    source = [path for package in PACKAGES for path in modules(ROOT / package)]
    lines = {path: len(path.read_text().splitlines()) for path in source}
    found = sorted(((length(f), path, f) for path in source for f in functions(path)), key=lambda x: -x[0])
    lengths = sorted(n for n, _, _ in found)
    tests = sum(len(path.read_text().splitlines()) for path in modules(ROOT / "tests"))
    typed = sum(f.returns is not None for _, _, f in found) / len(found)
    documented = sum(ast.get_docstring(f) is not None for _, _, f in found) / len(found)
    print("         files  median/max     functions  median fn  p90 fn   return types  docstrings  tests/source")
    row = [f"{len(source)}", f"{statistics.median(lines.values()):.0f}/{max(lines.values())}", f"{len(found)}"]
    row += [f"{statistics.median(lengths):.0f}", f"{lengths[int(0.9 * (len(lengths) - 1))]}"]
    row += [f"{typed:.0%}", f"{documented:.0%}", f"{tests / sum(lines.values()):.2f}"]
    print("ours     " + "".join(cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=True)))
    print(AIM)
    for n, path, f in found[:8]:
        print(f"  {n:4d} lines  {path.relative_to(ROOT)}:{f.lineno} {f.name}")


if __name__ == "__main__":
    main()

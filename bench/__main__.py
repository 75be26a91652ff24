"""`python -m bench [NAME ...]`: the benches named, or all of them. Each is a module of this folder with a `main()`."""

from __future__ import annotations

import importlib
import sys

#: in the order they run
BENCHES = ("start", "proof", "engine", "journal", "live")


def main() -> None:
    names = sys.argv[1:] or BENCHES
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        sys.exit(f"no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    for name in names:
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()

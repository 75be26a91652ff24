"""`python -m bench [NAME ...]`: the benches named, or all of them; `python -m bench NAME OPTION ...`: one with options.

Each is a module of this folder with a `main`, which takes the options where there are any.
"""

from __future__ import annotations

import importlib
import sys

#: in the order they run, with the arguments that they get when all run
BENCHES: dict[str, list[str]] = {"start": [], "proof": ["--large"], "engine": [], "journal": [], "live": []}
#: those that one has to name
FURTHER = ("growth", "roofline", "gpu", "history")
#: those that take options
WITH_OPTIONS = ("proof", *FURTHER)


def main() -> None:
    given = sys.argv[1:]
    count = next((i for i, word in enumerate(given) if word not in (*BENCHES, *FURTHER)), len(given))
    names, arguments = given[:count], given[count:]
    if arguments and not (len(names) == 1 and names[0] in WITH_OPTIONS):
        sys.exit(f"no bench {arguments[0]}; there are {', '.join((*BENCHES, *FURTHER))}")
    for name, own in [(name, arguments) for name in names] or BENCHES.items():
        status = importlib.import_module(f"bench.{name}").main(*([own] if own else []))
        if status:
            sys.exit(status)


if __name__ == "__main__":
    main()

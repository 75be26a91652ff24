"""The peer of the proof bench: bellperson on the same recorded circuit, the same keys and the same two cores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PEER = Path(__file__).resolve().parent / "peers" / "bellperson"
MATRICES = ("A", "B", "C")


def build(limit: float | None = None) -> Path | None:
    """The peer's program, built (in so many seconds at most) when cargo is there; None (after saying so) where it is
    not."""
    if shutil.which("cargo") is None:
        print("peer not installed: cargo is absent, so bellperson is not measured", file=sys.stderr)
        return None
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=PEER, check=True, timeout=limit)
    return PEER / "target" / "release" / "bellperson-peer"


def dump(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Write a recorded circuit with its witness as the peer reads it (layout: peers/bellperson/src/main.rs).

    `arrays`: {A,B,C}_indptr, _col, _coef, `coefs` uint8[k, 32], `inputs` and `aux` uint8[n, 32],
    little-endian, canonical.
    """
    rows = len(arrays["A_indptr"]) - 1
    sizes = [len(arrays["inputs"]), len(arrays["aux"]), rows, len(arrays["coefs"])]
    with path.open("wb") as out:
        out.write(np.array(sizes, "<u4").tobytes())
        for name in MATRICES:
            column = arrays[f"{name}_col"]
            out.write(np.array([len(column)], "<u4").tobytes())
            out.write(arrays[f"{name}_indptr"].astype("<u4").tobytes())
            out.write(column.astype("<u4").tobytes())
            out.write(arrays[f"{name}_coef"].astype("<u2").tobytes())
        out.write(b"".join(np.ascontiguousarray(arrays[part]).tobytes() for part in ("coefs", "inputs", "aux")))


def measure(
    program: Path, circuit: Path, params: Path, proofs: int, *, setup: bool = False, limit: float | None = None
) -> dict[str, Any]:
    """Seconds of each proof and verification (and of one setup) by bellperson on two threads, in `limit` seconds."""
    command = [str(program), str(circuit), str(params), str(proofs), *(["setup"] if setup else [])]
    environment = {**os.environ, "RAYON_NUM_THREADS": "2"}
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=limit)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result

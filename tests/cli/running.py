"""Runs the command line as its users do: as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


def cuzk(*arguments: Any, timeout: float = 60, **more: Any) -> subprocess.CompletedProcess[str]:
    """`cuzk ARGUMENTS`, its output captured."""
    command = [sys.executable, "-m", "prover", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **more)

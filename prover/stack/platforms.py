"""On what `cuzk up` lets the prover prove: a GPU that JAX can use, else the CPU, unless CUZK_GPUS__PLATFORM is set."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from .install import has_nvidia_gpu
from .running import ROOT

VARIABLE = "CUZK_GPUS__PLATFORM"
#: seconds that JAX may take to find its devices
PATIENCE = 60.0
_PROBE = "from prover import jaxconf; print(jaxconf.configure('gpu')[0].device_kind)"


def platform(say: Callable[[str], None], probe: str = _PROBE) -> str:
    """`cpu` or `gpu`, as the setting says where there is one. A GPU is used when JAX finds it; when there is one that
    JAX cannot use, `say` is told why."""
    wanted = os.environ.get(VARIABLE)
    if wanted:
        return wanted
    if not has_nvidia_gpu():
        return "cpu"
    found, text = _look(probe)
    if found:
        say(f"proving on a GPU: {text} ({VARIABLE}=cpu: on the CPU)")
        return "gpu"
    say(f"there is an NVIDIA GPU that JAX cannot use; proving on the CPU: {text}")
    return "cpu"


def _look(probe: str) -> tuple[bool, str]:
    """Whether a process of its own finds a GPU, and its name, or else why not."""
    try:
        command = [sys.executable, "-c", probe]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return False, f"no answer within {PATIENCE:.0f} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else f"exit status {done.returncode}"

"""Rows of points to gather from. On a CPU they lie in host memory, where numpy gathers fastest, and no program
depends on their number; on a device that is given what it works on (`chunks`) they lie there."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from prover.algebra.chunks import apart
from prover.algebra.curve import Group
from prover.algebra.kernels import kernel, put
from prover.algebra.points import Rows
from prover.algebra.scratch import scratch

Entries = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Table:
    """Rows float32[1 + n, columns] of which row 0 is infinity; `on_device` where they are gathered there: all of
    them on each device of a mesh."""

    group: Group
    rows: Rows
    on_device: jax.Array | None = None

    @classmethod
    def of_affine(cls, group: Group, rows: Rows) -> Table:
        """From affine rows, row 0 of which is infinity's."""
        return cls._placed(group, rows)

    @classmethod
    def of_projective(cls, group: Group, rows: Rows) -> Table:
        """From projective rows, row 0 of which is left for infinity."""
        rows[0] = group.identity.reshape(-1)
        return cls._placed(group, _padded(rows) if apart() else rows)

    @classmethod
    def _placed(cls, group: Group, rows: Rows) -> Table:
        return cls(group, rows, put(rows, cut=False) if apart() else None)

    def gather(self, entries: Entries, steps: npt.NDArray[np.int32]) -> jax.Array:
        """Rows |entries| of int32[B, S, L], the first steps[t] of each tile t: float32[B, S, L, columns], the rest
        arbitrary.

        On a CPU the result is this thread's buffer, which the next call overwrites.
        """
        if self.on_device is not None:
            taken: jax.Array = _take(self.on_device, entries)
            return taken
        buffer = scratch("gather", (*entries.shape, self.rows.shape[1]), np.float32)
        for tile, chosen, count in zip(buffer.host, entries, steps, strict=True):
            # 'clip' because only with it numpy writes to `out` without another copy; all entries are in range
            np.take(self.rows, np.abs(chosen[:count]), axis=0, out=tile[:count], mode="clip")
        return buffer.array()


def _padded(rows: Rows) -> Rows:
    """Zero rows appended up to a power of two, so that few programs gather from all lengths."""
    return np.pad(rows, ((0, (1 << (len(rows) - 1).bit_length()) - len(rows)), (0, 0)))


@kernel(cut=(False, True))
def _take(rows: jax.Array, entries: jax.Array) -> jax.Array:
    return rows.at[jnp.abs(entries)].get(mode="promise_in_bounds")

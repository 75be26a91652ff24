"""Rows of affine points to gather from. On a CPU they lie in host memory, where numpy gathers fastest, and no program
depends on their number; on a GPU they lie on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from prover.algebra.curve import Group
from prover.algebra.kernels import kernel, platform
from prover.algebra.points import Rows, infinity_row


@dataclass(frozen=True)
class Table:
    """Affine rows float32[1 + n, columns]; row 0 is infinity. `on_device` where the platform gathers there."""

    group: Group
    rows: Rows
    on_device: jax.Array | None = None

    @classmethod
    def of(cls, group: Group, rows: Rows, device: jax.Device | None = None) -> Table:
        """From rows whose row 0 is left for infinity."""
        rows[0] = infinity_row(group)
        if platform() == "cpu":
            return cls(group, rows)
        return cls(group, rows[:1], jax.device_put(rows, device))

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes if self.on_device is None else self.on_device.nbytes)

    def take(self, entries: npt.NDArray[np.int32]) -> Any:
        """The rows |entries|: float32[*entries.shape, columns]."""
        if self.on_device is None:
            return self.rows.take(np.abs(entries), axis=0, mode="clip")
        return _take(self.on_device, entries)


@kernel()
def _take(rows: jax.Array, entries: jax.Array) -> jax.Array:
    return rows.at[jnp.abs(entries)].get(mode="promise_in_bounds")

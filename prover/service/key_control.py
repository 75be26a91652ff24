"""Loads and drops the keys of circuits, for who asks over gRPC."""

from __future__ import annotations

from prover.filecoin.shapes import CircuitShape
from prover.pipeline.keys import KeyManager


class KeyControl:
    """Both calls may take minutes; those for one circuit at the same time share one load."""

    def __init__(self, keys: KeyManager) -> None:
        self._keys = keys

    def preload(self, shape: CircuitShape) -> bool:
        """Have a circuit's key on every device; whether it was there already. Raises CuzkError."""
        already, _ = self._keys.preload_shape(shape)
        return already

    def evict(self, shape: CircuitShape) -> int | None:
        """Drop a circuit's key: the bytes that are free then, None when it was not loaded. Raises CuzkError."""
        was_loaded, freed = self._keys.evict(shape.key_name)
        return freed if was_loaded else None

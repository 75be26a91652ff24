"""What can be wrong with keys, proofs, inputs and the set-up's scalars."""

from __future__ import annotations

from prover.errors import CuzkError, InvalidInput


class KeyFileDamaged(CuzkError):
    """The key file is damaged: its length, a point or its digest is wrong."""

    code = "key_damaged"


class KeyMismatch(CuzkError):
    """The key belongs to another circuit."""

    code = "key_mismatch"


class KeyNotFound(CuzkError):
    """No key of this circuit is in the key directory."""

    code = "key_not_found"


class KeyExists(CuzkError):
    """A key of this name exists already; keys are never overwritten."""

    code = "key_exists"


class ProofMalformed(InvalidInput):
    """The bytes are no Groth16 proof."""

    code = "proof_malformed"


class PublicInputsInvalid(InvalidInput):
    """The public inputs do not fit the key, or one is no field element."""

    code = "public_inputs_invalid"


class ScalarsInvalid(InvalidInput):
    """The scalars of a set-up or a proof are out of range."""

    code = "scalars_invalid"


class KeyWriteFailed(CuzkError):
    """A key file cannot be written."""

    code = "key_write_failed"


class UnconstrainedWire(CuzkError):
    """A wire of the circuit is in no constraint, so that anything could be put on it."""

    code = "unconstrained_wire"

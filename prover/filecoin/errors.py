"""What can be wrong with a proof request, one class a cause. The codes are an interface."""

from __future__ import annotations

from prover.errors import InvalidInput, InvalidRequest, RequestTooLarge, UnsupportedProof

__all__ = [
    "CommRMismatch", "DuplicateSector", "InvalidLabel", "InvalidRequest", "MalformedVanillaProof",
    "MerklePathMismatch", "NonCanonicalElement", "NumberOutOfRange", "RegisteredProofMismatch", "RequestTooLarge",
    "SectorOrder", "TrailingBytes", "TruncatedVanillaProof", "UnsupportedProof", "UnsupportedSectorSize",
    "WrongChallenge", "WrongLength", "WrongProofCount",
]  # fmt: skip


class UnsupportedSectorSize(UnsupportedProof):
    """No circuit of this kind exists for this sector size."""

    code = "unsupported_sector_size"


class RegisteredProofMismatch(InvalidInput):
    """The registered proof does not agree with the kind of proof and the sector size."""

    code = "registered_proof_mismatch"


class WrongProofCount(InvalidInput):
    """The request holds a wrong number of vanilla proofs."""

    code = "wrong_proof_count"


class InvalidLabel(InvalidInput):
    """A label is too long or holds characters that cannot be shown."""

    code = "invalid_label"


class NumberOutOfRange(InvalidInput):
    """A number is outside its range."""

    code = "number_out_of_range"


class WrongLength(InvalidInput):
    """A field has a wrong number of bytes."""

    code = "wrong_length"


class NonCanonicalElement(InvalidInput):
    """The 32 bytes, read as a little-endian integer, are not less than the order of the scalar field."""

    code = "non_canonical_element"


class TruncatedVanillaProof(InvalidInput):
    """The vanilla proof ends before all that it declares."""

    code = "truncated_vanilla_proof"


class TrailingBytes(InvalidInput):
    """The vanilla proof is followed by bytes that do not belong to it."""

    code = "trailing_bytes"


class MalformedVanillaProof(InvalidInput):
    """The vanilla proof has not the form that its sector size and kind prescribe."""

    code = "malformed_vanilla_proof"


class SectorOrder(InvalidInput):
    """Sectors are not in ascending order of their ids, in which verifiers take them."""

    code = "sector_order"


class DuplicateSector(InvalidInput):
    """A sector occurs twice."""

    code = "duplicate_sector"


class WrongChallenge(InvalidInput):
    """The path proves another leaf than the one that the randomness challenges."""

    code = "wrong_challenge"


class MerklePathMismatch(InvalidInput):
    """The Merkle path does not lead to its root."""

    code = "merkle_path_mismatch"


class CommRMismatch(InvalidInput):
    """comm_r is not the hash of comm_c and comm_r_last."""

    code = "comm_r_mismatch"

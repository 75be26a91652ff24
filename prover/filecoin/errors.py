"""What can be wrong with a proof request, one class a cause. The codes are an interface."""

from __future__ import annotations

from prover.errors import InvalidInput, InvalidRequest, RequestTooLarge, UnsupportedProof

__all__ = [
    "ApexMismatch", "CircuitUnknown", "ColumnMismatch", "CommRMismatch", "DuplicateSector", "EncodingMismatch",
    "InvalidBase64", "InvalidLabel", "InvalidRequest", "LabelMismatch", "MalformedVanillaProof", "MerklePathMismatch",
    "NonCanonicalElement", "NumberOutOfRange", "RegisteredProofMismatch", "ReplicaIdMismatch", "RequestTooLarge",
    "SectorNumberMismatch", "SectorOrder", "SectorSizeMismatch", "TrailingBytes", "TruncatedVanillaProof",
    "UnsupportedProof", "UnsupportedSectorSize", "WrongChallenge", "WrongLength", "WrongParent", "WrongProofCount",
]  # fmt: skip


class UnsupportedSectorSize(UnsupportedProof):
    """No circuit of this kind exists for this sector size."""

    code = "unsupported_sector_size"


class CircuitUnknown(InvalidInput):
    """The name is that of no circuit that cuzk knows."""

    code = "circuit_unknown"


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
    """The path or column is not that of the node that must be proved there."""

    code = "wrong_challenge"


class MerklePathMismatch(InvalidInput):
    """The Merkle path does not lead to its root."""

    code = "merkle_path_mismatch"


class CommRMismatch(InvalidInput):
    """comm_r is not the hash of comm_c and comm_r_last."""

    code = "comm_r_mismatch"


class InvalidBase64(InvalidInput):
    """The text is not base64."""

    code = "invalid_base64"


class SectorSizeMismatch(InvalidInput):
    """The C1 output is of a sector of another size than the request."""

    code = "sector_size_mismatch"


class SectorNumberMismatch(InvalidInput):
    """The C1 output is of another sector than the request."""

    code = "sector_number_mismatch"


class ReplicaIdMismatch(InvalidInput):
    """The replica id is not the hash of miner, sector, ticket, comm_d and the seal proof."""

    code = "replica_id_mismatch"


class WrongParent(InvalidInput):
    """The column is of another node than the parent that the graph has there."""

    code = "wrong_parent"


class ColumnMismatch(InvalidInput):
    """The leaf in the tree of columns is not the hash of the column's labels."""

    code = "column_mismatch"


class LabelMismatch(InvalidInput):
    """The label is not the hash of the labels of its parents."""

    code = "label_mismatch"


class EncodingMismatch(InvalidInput):
    """The node of the replica is not what its data encode to."""

    code = "encoding_mismatch"


class ApexMismatch(InvalidInput):
    """The apex leaves are not the nodes of the data tree that stand over the partition."""

    code = "apex_mismatch"

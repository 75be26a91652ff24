"""Sector sizes with their trees, the circuits over them, registered proofs, and the names of key files.

Sources: filecoin-proofs 19.1.0 (constants, parameters), storage-proofs-core 19.1.0 (parameter cache),
filecoin-proofs-api 19.1.0 (registered proofs).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from hashlib import sha256

from .errors import RegisteredProofMismatch, UnsupportedProof, UnsupportedSectorSize

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30  # bytes
NODE_SIZE = 32  # bytes
BASE_ARITY = 8
WINDOW_CHALLENGES = 10  # a sector
WINNING_CHALLENGES = 66  # in one sector
LAYERS = 2  # of labels, in sectors of test networks: below 32 GiB
UPDATE_CHALLENGE_BITS = 254  # of a digest that are cut into the challenges of a sector update
CACHE_VERSION = 28  # of the Filecoin parameter files
PARAMETER_CACHE = "/var/tmp/filecoin-proof-parameters"  # their folder, if FIL_PROOFS_PARAMETER_CACHE names no other


class ProofKind(StrEnum):
    """The four kinds of proof by the words of the log and the status page."""

    POREP = "porep-c2"
    SNAP = "snap-update"
    WINDOW_POST = "window-post"
    WINNING_POST = "winning-post"


#: the kinds that FallbackPoSt circuits prove; their keys of the test sizes are made within a minute
POST_KINDS = (ProofKind.WINDOW_POST, ProofKind.WINNING_POST)
PROOF_BYTES = 192  # of one partition


class Priority(IntEnum):
    """Higher goes first. The numbers are those of the message."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


class ApiVersion(StrEnum):
    """The version of the proofs API: it decides how challenges and parents are derived."""

    V1_0_0 = "1.0.0"
    V1_1_0 = "1.1.0"
    V1_2_0 = "1.2.0"


@dataclass(frozen=True)
class SectorShape:
    """A sector size and its Poseidon trees: base trees of arity 8, `sub` of them under a node, `top` of those.

    `sub` or `top` = 0: there is no such level. `window_sectors` = 0: the size has no PoSt circuits.
    """

    size: int  # bytes
    sub: int
    top: int
    window_sectors: int  # sectors in a WindowPoSt partition
    sealable: bool = True  # the size has a PoRep circuit

    @property
    def name(self) -> str:
        """The size as the Filecoin stack writes it, such as ``32GiB``."""
        unit, word = next(
            (unit, word) for unit, word in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")) if self.size >= unit
        )
        return f"{self.size // unit}{word}"

    @property
    def nodes(self) -> int:
        """Leaves of the sector's trees."""
        return self.size // NODE_SIZE

    @property
    def node_bits(self) -> int:
        """Bits of a leaf's number: levels of the binary tree over the data."""
        return self.nodes.bit_length() - 1

    @property
    def tree_name(self) -> str:
        """The tree as cache identifiers write it."""
        return f"merkletree-poseidon_hasher-{BASE_ARITY}-{self.sub}-{self.top}"

    @cached_property
    def arities(self) -> tuple[int, ...]:
        """The arity of each level of a path, from the leaf to the root."""
        base_leaves = self.nodes // ((self.sub or 1) * (self.top or 1))
        base_levels = (base_leaves.bit_length() - 1) // 3
        return (BASE_ARITY,) * base_levels + tuple(arity for arity in (self.sub, self.top) if arity)

    def digits(self, leaf: int) -> tuple[int, ...]:
        """The index of the path at each level, from the leaf to the root, of the leaf with number `leaf`."""
        digits = []
        for arity in self.arities:
            leaf, digit = divmod(leaf, arity)
            digits.append(digit)
        return tuple(digits)


#: every sector size for which the Filecoin stack has a configuration
SECTORS = {
    sector.size: sector
    for sector in (
        SectorShape(2 * KIB, 0, 0, 2),
        SectorShape(4 * KIB, 2, 0, 2),
        SectorShape(8 * KIB, 4, 0, 0, sealable=False),
        SectorShape(16 * KIB, 8, 0, 2),
        SectorShape(32 * KIB, 8, 2, 2),
        SectorShape(8 * MIB, 0, 0, 2),
        SectorShape(16 * MIB, 2, 0, 2),
        SectorShape(512 * MIB, 0, 0, 2),
        SectorShape(1 * GIB, 2, 0, 2),
        SectorShape(32 * GIB, 8, 0, 2349),
        SectorShape(64 * GIB, 8, 2, 2300),
    )
}
#: the sizes that have registered proofs, in the order of their numbers
REGISTERED_SIZES = (2 * KIB, 8 * MIB, 512 * MIB, 32 * GIB, 64 * GIB)


@dataclass(frozen=True)
class CircuitShape(ABC):
    """What fixes a circuit: its kind, the sector, and the parameters of the kind."""

    kind: ProofKind
    sector: SectorShape

    @property
    @abstractmethod
    def num_inputs(self) -> int:
        """Public inputs, ONE included."""

    @property
    @abstractmethod
    def identifier(self) -> str:
        """The string whose SHA-256 names the key files."""

    @property
    @abstractmethod
    def cache_prefix(self) -> str:
        """What stands before that SHA-256."""

    @property
    def cache_name(self) -> str:
        """The name of the circuit in file names, without version and extension."""
        return f"{self.cache_prefix}-{sha256(self.identifier.encode()).hexdigest()}"

    @property
    def key_name(self) -> str:
        """The name of the circuit's key files, without extension (``.params``, ``.vk``, ``.meta``)."""
        return f"v{CACHE_VERSION}-{self.cache_name}"

    @property
    def label(self) -> str:
        """The circuit as people name it, such as ``window-post 2KiB``."""
        return f"{self.kind} {self.sector.name}"


@dataclass(frozen=True)
class PostShape(CircuitShape):
    """The parameters of a FallbackPoSt circuit: WindowPoSt and WinningPoSt differ in them alone."""

    sectors: int  # in the circuit
    challenges: int  # a sector of the circuit

    @property
    def num_inputs(self) -> int:
        """Public inputs, ONE included: for each sector comm_r, then its challenges."""
        return 1 + self.sectors * (1 + self.challenges)

    @property
    def paths_per_vanilla_proof(self) -> int:
        """Inclusion proofs in a vanilla proof: WinningPoSt proves one sector, unrolled over the whole circuit."""
        return self.sectors if self.kind is ProofKind.WINNING_POST else self.challenges

    @property
    def vanilla_proofs_per_partition(self) -> int:
        """Vanilla proofs that one circuit takes."""
        return 1 if self.kind is ProofKind.WINNING_POST else self.sectors

    @property
    def identifier(self) -> str:
        """The string whose SHA-256 names the key files."""
        return (
            f"FallbackPoSt::PublicParams{{sector_size: {self.sector.size}, "
            f"challenge_count: {self.challenges}, sector_count: {self.sectors}}}"
        )

    @property
    def cache_prefix(self) -> str:
        """What stands before that SHA-256."""
        return f"proof-of-spacetime-fallback-{self.sector.tree_name}"


@dataclass(frozen=True)
class PorepShape(CircuitShape):
    """The parameters of the StackedDrg PoRep circuit. Its keys are the same whatever the number of partitions."""

    layers: int
    partitions: int  # of a sector: so many circuits
    challenges: int  # a partition

    @property
    def data_levels(self) -> int:
        """Levels of the binary tree over the data."""
        return self.sector.node_bits

    @property
    def num_inputs(self) -> int:
        """Public inputs, ONE included: replica_id, comm_d, comm_r, then 18 a challenge."""
        return 4 + 18 * self.challenges

    @property
    def identifier(self) -> str:
        """The string whose SHA-256 names the key files."""
        return (
            "layered_drgporep::PublicParams{ graph: stacked_graph::StackedGraph{expansion_degree: 8 "
            f"base_graph: drgraph::BucketGraph{{size: {self.sector.nodes}; degree: 6; hasher: poseidon_hasher}} }}, "
            f"challenges: LayerChallenges {{ layers: {self.layers}, max_count: {self.challenges} }}, "
            f"tree: {self.sector.tree_name} }}"
        )

    @property
    def cache_prefix(self) -> str:
        """What stands before that SHA-256."""
        return f"stacked-proof-of-replication-{self.sector.tree_name}-sha256_hasher"


@dataclass(frozen=True)
class UpdateShape(CircuitShape):
    """The parameters of the EmptySectorUpdate circuit (SnapDeals)."""

    partitions: int  # of a sector: so many circuits, each over its own part of the nodes
    challenges: int  # a partition
    apex_leaves: int  # nodes of the data tree that stand for the subtrees of a partition

    @property
    def num_inputs(self) -> int:
        """Public inputs, ONE included: partition and h, comm_r_old, comm_d_new, comm_r_new."""
        return 5

    @property
    def node_bits(self) -> int:
        """Bits of a node's number."""
        return self.sector.node_bits

    @property
    def partition_bits(self) -> int:
        """The highest bits of a challenged node's number: its partition."""
        return self.partitions.bit_length() - 1

    @property
    def apex_bits(self) -> int:
        """The bits below them: the apex leaf above the node."""
        return self.apex_leaves.bit_length() - 1

    @property
    def challenge_bits(self) -> int:
        """Random bits of a challenge: the others are its partition."""
        return self.node_bits - self.partition_bits

    @property
    def challenges_per_digest(self) -> int:
        """How many challenges are cut from one digest."""
        return UPDATE_CHALLENGE_BITS // self.challenge_bits

    @property
    def digests(self) -> int:
        """Digests of a partition's challenges; the last one may give fewer."""
        return -(-self.challenges // self.challenges_per_digest)

    @property
    def high_bits(self) -> tuple[int, ...]:
        """The six numbers of high bits of a node among which h is chosen: its randomness rho depends on so many."""
        return (1,) * 6 if self.sector.size <= 32 * KIB else tuple(range(7, 13))

    @property
    def h(self) -> int:
        """The one that is chosen: that of the fourth position."""
        return self.high_bits[3]

    @property
    def h_position(self) -> int:
        """Where it is written, one-hot: the first position that has it."""
        return self.high_bits.index(self.h)

    def high(self, node: int) -> int:
        """The h high bits of a node's number."""
        return node >> (self.node_bits - self.h)

    def partition_and_h(self, partition: int) -> int:
        """The first public input of a partition."""
        return partition | 1 << (self.partition_bits + self.h_position)

    @property
    def identifier(self) -> str:
        """The string whose SHA-256 names the key files."""
        return f"empty_sector_update::PublicParams{{ sector_nodes: {self.sector.nodes} }}"

    @property
    def cache_prefix(self) -> str:
        """What stands before that SHA-256."""
        return f"empty-sector-update-{self.sector.tree_name}"


def sector_shape(size: int, *, field: str = "sector_size") -> SectorShape:
    """The shape of a sector of `size` bytes. Raises UnsupportedSectorSize."""
    if size not in SECTORS:
        raise UnsupportedSectorSize(f"{size} bytes is none of {_names(SECTORS.values())}", field=field)
    return SECTORS[size]


def parse_sector_size(text: str) -> SectorShape:
    """The shape of the size written as ``2KiB``, ``2 KiB`` or ``2048``. Raises UnsupportedSectorSize."""
    word = text.replace(" ", "").lower()
    for sector in SECTORS.values():
        if word in (sector.name.lower(), str(sector.size)):
            return sector
    raise UnsupportedSectorSize(f"{text[:40]!r} is none of {_names(SECTORS.values())}", field="sector_size")


def circuit_shape(kind: ProofKind, size: int) -> CircuitShape:
    """The circuit of a kind over sectors of `size` bytes. Raises UnsupportedSectorSize."""
    if kind is ProofKind.POREP:
        return porep_shape(size)
    return update_shape(size) if kind is ProofKind.SNAP else post_shape(kind, size)


def porep_shape(size: int) -> PorepShape:
    """The PoRep circuit over sectors of `size` bytes. Raises UnsupportedSectorSize."""
    sector = sector_shape(size)
    if not sector.sealable:
        raise _no_circuit(ProofKind.POREP, sector, lambda each: each.sealable)
    layers, partitions, challenges = (11, 10, 18) if size >= 32 * GIB else (LAYERS, 1, 2)
    return PorepShape(ProofKind.POREP, sector, layers, partitions, challenges)


def update_shape(size: int) -> UpdateShape:
    """The EmptySectorUpdate circuit over sectors of `size` bytes. Raises UnsupportedSectorSize."""
    sector = sector_shape(size)
    if size == 1 * GIB:
        raise _no_circuit(ProofKind.SNAP, sector, lambda each: each.size != 1 * GIB)
    if size <= 8 * KIB:
        return UpdateShape(ProofKind.SNAP, sector, 1, 10, 8)
    if size < 512 * MIB:
        return UpdateShape(ProofKind.SNAP, sector, 2 if size <= 32 * KIB else 4, 10, 128)
    return UpdateShape(ProofKind.SNAP, sector, 16, 86, 128)


def post_shape(kind: ProofKind, size: int) -> PostShape:
    """The circuit of a PoSt kind over sectors of `size` bytes. Raises UnsupportedProof, UnsupportedSectorSize."""
    sector = sector_shape(size)
    if not sector.window_sectors:
        raise _no_circuit(kind, sector, lambda each: bool(each.window_sectors))
    if kind is ProofKind.WINDOW_POST:
        return PostShape(kind, sector, sector.window_sectors, WINDOW_CHALLENGES)
    if kind is ProofKind.WINNING_POST:
        return PostShape(kind, sector, WINNING_CHALLENGES, 1)
    raise UnsupportedProof(f"{kind} is no proof of spacetime", field="proof_kind")


def _no_circuit(kind: ProofKind, sector: SectorShape, has: Callable[[SectorShape], bool]) -> UnsupportedSectorSize:
    sizes = _names(each for each in SECTORS.values() if has(each))
    return UnsupportedSectorSize(f"there is no {kind} circuit for {sector.name}, only for {sizes}", field="sector_size")


def registered_api_version(kind: ProofKind, size: int, registered_proof: int) -> ApiVersion:
    """The ApiVersion of a request by its registered proof (0: the size has none).

    Raises RegisteredProofMismatch, UnsupportedProof, UnsupportedSectorSize.
    """
    if kind is ProofKind.POREP:
        return _porep_api_version(size, registered_proof)
    if kind is ProofKind.SNAP:
        _check_registered(kind, size, registered_proof, (0,))
        return ApiVersion.V1_1_0
    return post_api_version(kind, size, registered_proof)


def _porep_api_version(size: int, number: int) -> ApiVersion:
    if size not in REGISTERED_SIZES:
        sizes = _names(SECTORS[registered] for registered in REGISTERED_SIZES)
        text = f"there is no seal proof of {SECTORS[size].name}, only of {sizes}: a C1 output names its own"
        raise UnsupportedSectorSize(text, field="sector_size")
    if 15 <= number < 20:
        text = f"{number} ({seal_proof_names(number)[0]}) is proved in aggregation, which is not supported"
        raise UnsupportedProof(text, field="registered_proof")
    _check_registered(ProofKind.POREP, size, number, (0, 5, 10))
    return seal_api_version(number)


def _check_registered(kind: ProofKind, size: int, number: int, firsts: Iterable[int]) -> None:
    """`firsts`: the numbers of the 2 KiB entries of the kind; the other sizes follow each."""
    if size not in REGISTERED_SIZES:
        if number:
            text = f"{SECTORS[size].name} has no registered proofs: the field must be absent, not {number}"
            raise RegisteredProofMismatch(text, field="registered_proof")
        return
    numbers = [first + REGISTERED_SIZES.index(size) for first in firsts]
    if number not in numbers:
        wanted = " or ".join(map(str, numbers))
        text = f"{kind} of {SECTORS[size].name} is registered as {wanted}, not {number}"
        raise RegisteredProofMismatch(text, field="registered_proof")


def circuit_shapes() -> Iterator[CircuitShape]:
    """Every circuit that the Filecoin stack has a configuration for."""
    for kind in ProofKind:
        for size in SECTORS:
            with suppress(UnsupportedSectorSize):
                yield circuit_shape(kind, size)


def circuit_labels() -> dict[str, str]:
    """The labels of all circuits, by the names of their keys."""
    return {shape.key_name: shape.label for shape in circuit_shapes()}


def post_api_version(kind: ProofKind, size: int, registered_proof: int) -> ApiVersion:
    """The ApiVersion of a PoSt by its registered proof (0: the size has none). Raises RegisteredProofMismatch."""
    versions = _WINDOW_VERSIONS if kind is ProofKind.WINDOW_POST else _WINNING_VERSIONS
    _check_registered(kind, size, registered_proof, versions)
    if size not in REGISTERED_SIZES:
        return max(versions.values())
    return versions[registered_proof - REGISTERED_SIZES.index(size)]


def seal_api_version(registered_seal_proof: int) -> ApiVersion:
    """The ApiVersion of a RegisteredSealProof 0..19. Raises ValueError."""
    if not 0 <= registered_seal_proof < 20:
        raise ValueError(f"registered seal proofs are 0..19, not {registered_seal_proof}")
    return (ApiVersion.V1_0_0, ApiVersion.V1_1_0, ApiVersion.V1_2_0, ApiVersion.V1_2_0)[registered_seal_proof // 5]


#: RegisteredSealProof: the ends of the names of five numbers each; the first one is filecoin-proofs-api's
_SEAL_NAMES = (
    ("V1",),
    ("V1_1",),
    ("V1_1_Feat_SyntheticPoRep",),
    ("V1_2_Feat_NonInteractivePoRep", "V1_2_Feat_NiPoRep"),
)


def seal_proof_names(registered_seal_proof: int) -> tuple[str, ...]:
    """The names of a RegisteredSealProof 0..19, such as ``StackedDrg2KiBV1_1``; the Rust stack's own first."""
    version, size = divmod(registered_seal_proof, len(REGISTERED_SIZES))
    name = SECTORS[REGISTERED_SIZES[size]].name
    return tuple(f"StackedDrg{name}{ending}" for ending in _SEAL_NAMES[version])


#: RegisteredPoStProof: number of the 2 KiB entry -> ApiVersion; the other sizes follow it
_WINNING_VERSIONS = {0: ApiVersion.V1_0_0}
_WINDOW_VERSIONS = {5: ApiVersion.V1_0_0, 10: ApiVersion.V1_2_0}


def _names(sectors: Iterable[SectorShape]) -> str:
    return ", ".join(sector.name for sector in sectors)

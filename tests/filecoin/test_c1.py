"""C1 outputs: the published one is read in both forms and written; every other form is refused, naming the place."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from prover.errors import CuzkError, InvalidInput, UnsupportedProof
from prover.filecoin import c1, c1_check
from prover.filecoin.errors import (
    InvalidBase64,
    MalformedVanillaProof,
    NonCanonicalElement,
    RegisteredProofMismatch,
    SectorNumberMismatch,
    SectorSizeMismatch,
    TrailingBytes,
    TruncatedVanillaProof,
    WrongProofCount,
)
from prover.filecoin.fr import MODULUS, to_bytes
from prover.filecoin.request import PorepRequest
from prover.filecoin.shapes import PorepShape, parse_sector_size, porep_shape, seal_proof_names
from prover.filecoin.source import Bincode

from .samples import DATA, POREP, c1_document, changed, message, parsed, patched, spoiled_c1, wrapped

SHAPE = porep_shape(2048)
PUBLISHED = parsed(POREP)
BINCODE = (DATA / "2k/c1_filecoin_proofs.bin").read_bytes()
PLACE = "vanilla_proof.Phase1Out"
CHALLENGES = "vanilla_proof.Phase1Out.vanilla_proofs.StackedDrg2KiBV1[0]"
FIRST = 16  # where the first challenge begins in bincode


def read(request: PorepRequest) -> c1.C1Output:
    return c1.read_inner(request.c1.inner, request.shape, request.seal_proof, PLACE)


def read_bincode(data: bytes, shape: PorepShape, field: str) -> c1.C1Output:
    """filecoin-proofs' own SealCommitPhase1Output in bincode, which does not name its seal proof: the other form."""
    source = Bincode(data, field)
    output = c1.read_output(source, source.part("vanilla_proofs"), shape)
    source.end()
    return output


def challenge(document: Any, number: int = 0) -> Any:
    return document["vanilla_proofs"]["StackedDrg2KiBV1"][0][number]


def test_both_forms_of_the_published_output_say_the_same() -> None:
    output = read(PUBLISHED)
    assert output == read_bincode(BINCODE, SHAPE, "c1")
    assert [[proof.column.node for proof in partition] for partition in output.partitions] == [[58, 12]]
    assert PUBLISHED.c1.sector_number == 1


def test_it_is_written_as_the_rust_stack_writes_it() -> None:
    inner = c1.write_inner(read(PUBLISHED), SHAPE, 5)
    assert inner == PUBLISHED.c1.inner
    assert c1.write_wrapper(inner, 1, 2048) == message(POREP).vanilla_proof


def test_the_order_of_members_and_blanks_do_not_matter() -> None:
    def backwards(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: backwards(value[name]) for name in reversed(value)}
        return [backwards(each) for each in value] if isinstance(value, list) else value

    inner = json.dumps(backwards(c1_document()), indent=1).encode()
    assert read(changed(POREP, vanilla_proof=wrapped(inner))) == read(PUBLISHED)


@pytest.mark.parametrize(("size", "partitions"), [("2KiB", 1), ("512MiB", 1), ("32GiB", 10), ("64GiB", 10)])
def test_how_many_values_an_output_may_hold(size: str, partitions: int) -> None:
    shape = porep_shape(parse_sector_size(size).size)
    count = c1.element_count(shape)
    assert (count - 5) % (partitions * shape.challenges) == 0
    assert shape.sector.size > 2048 or count == 815


WRAPPERS: list[tuple[bytes, type[CuzkError], str, str]] = [
    (b"", MalformedVanillaProof, "vanilla_proof", "no JSON document"),
    (b"{", MalformedVanillaProof, "vanilla_proof", "no JSON document"),
    (b"\xff", MalformedVanillaProof, "vanilla_proof", "no JSON document"),
    (b"[]", MalformedVanillaProof, "vanilla_proof", "a list found, an object needed"),
    (b"[" * 100_000, MalformedVanillaProof, "vanilla_proof", "100000 objects and lists, at most 1 allowed"),
    (b"[" + b"0," * 100 + b"0]", MalformedVanillaProof, "vanilla_proof", "101 values, at most 3 allowed"),
    (b'{"SectorNum": 1, "SectorNum": 2}', MalformedVanillaProof, "vanilla_proof", "a key twice"),
    (wrapped(b"{}", SectorNum=None), MalformedVanillaProof, "vanilla_proof.SectorNum", "missing"),
    (wrapped(b"{}", SectorSize=None), MalformedVanillaProof, "vanilla_proof.SectorSize", "missing"),
    (wrapped(b"{}", Phase1Out=None), MalformedVanillaProof, PLACE, "missing"),
    (wrapped(b"{}", Phase1Out=7), MalformedVanillaProof, PLACE, "a number found, a string needed"),
    (wrapped(b"{}", SectorNum=-1), MalformedVanillaProof, "vanilla_proof.SectorNum", "unsigned integer of 64 bits"),
    (wrapped(b"{}", SectorNum=1 << 64), MalformedVanillaProof, "vanilla_proof.SectorNum", "unsigned integer"),
    (wrapped(b"{}", SectorNum=True), MalformedVanillaProof, "vanilla_proof.SectorNum", "a truth value found"),
    (wrapped(b"{}", SectorNum=1.5), MalformedVanillaProof, "vanilla_proof.SectorNum", "a number found"),
    (wrapped(b"{}", Phase1Out="AAA*"), InvalidBase64, PLACE, "character 3 is none of base64"),
    (wrapped(b"{}", Phase1Out="AAAA\n"), InvalidBase64, PLACE, "character 4 is none of base64"),
    (wrapped(b"{}", Phase1Out="AAAé"), InvalidBase64, PLACE, "character 3 is none of base64"),
    (wrapped(b"{}", Phase1Out="AAA"), InvalidBase64, PLACE, "padding"),
    (
        wrapped(b"{}", SectorSize=4096),
        SectorSizeMismatch,
        "vanilla_proof.SectorSize",
        "4096 bytes, the request has 2048",
    ),
    (wrapped(b"{}", SectorNum=2), SectorNumberMismatch, "vanilla_proof.SectorNum", "sector 2, the request has 1"),
]


@pytest.mark.parametrize(("data", "error", "field", "text"), WRAPPERS)
def test_a_bad_wrapper_is_refused_with_the_request(data: bytes, error: type[CuzkError], field: str, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        changed(POREP, vanilla_proof=data)
    assert type(caught.value) is error
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("StackedDrg2KiBV1", RegisteredProofMismatch, r"StackedDrg2KiBV1, the request has 5 \(StackedDrg2KiBV1_1\)"),
        ("StackedDrg2KiBV1_1_Feat_SyntheticPoRep", RegisteredProofMismatch, "the request has 5"),
        ("StackedDrg8MiBV1_1", RegisteredProofMismatch, "the request has 5"),
        ("StackedDrg2KiBV1_2_Feat_NonInteractivePoRep", UnsupportedProof, "aggregation"),
        ("StackedDrg2KiBV1_2_Feat_NiPoRep", UnsupportedProof, "aggregation"),
        ("x" * 80, RegisteredProofMismatch, "the request has 5"),
    ],
)
def test_the_seal_proof_of_another_api_version_or_size_is_refused_with_the_request(
    name: str, error: type[CuzkError], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        spoiled_c1(lambda document: document.update(registered_proof=name))
    assert caught.value.field == f"{PLACE}.registered_proof"


def test_a_seal_proof_that_does_not_come_first_is_still_compared() -> None:
    document = c1_document()
    document["registered_proof"] = document.pop("registered_proof") + "_Feat_SyntheticPoRep"
    with pytest.raises(RegisteredProofMismatch) as caught:
        c1_check.partitions(changed(POREP, vanilla_proof=wrapped(document)))
    assert caught.value.field == f"{PLACE}.registered_proof"


def test_seal_proofs_have_the_names_of_the_rust_stack() -> None:
    assert [seal_proof_names(number)[0] for number in (0, 8, 14)] == [
        "StackedDrg2KiBV1",
        "StackedDrg32GiBV1_1",
        "StackedDrg64GiBV1_1_Feat_SyntheticPoRep",
    ]
    assert seal_proof_names(16) == (
        "StackedDrg8MiBV1_2_Feat_NonInteractivePoRep",
        "StackedDrg8MiBV1_2_Feat_NiPoRep",
    )


def put(*path: str | int, value: Any) -> Callable[[Any], None]:
    """A change of one value of a document."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


PROOFS = ("vanilla_proofs", "StackedDrg2KiBV1")
ONE = (*PROOFS, 0, 1)
SINGLE = ("comm_r_last_proof", "data", "Single")
DOCUMENTS: list[tuple[Callable[[Any], None], type[CuzkError], str, str]] = [
    (drop("ticket"), MalformedVanillaProof, f"{PLACE}.ticket", "missing"),
    (put("ticket", value=[0] * 31), MalformedVanillaProof, f"{PLACE}.ticket", "a list of 32 bytes needed"),
    (put("seed", value=[256] * 32), MalformedVanillaProof, f"{PLACE}.seed", "a list of 32 bytes needed"),
    (put("seed", value=[0.5] * 32), MalformedVanillaProof, f"{PLACE}.seed", "a list of 32 bytes needed"),
    (put("seed", value=[True] * 32), MalformedVanillaProof, f"{PLACE}.seed", "a list of 32 bytes needed"),
    (put("seed", value=1 << 62), MalformedVanillaProof, f"{PLACE}.seed", "a number found"),
    (put("registered_proof", value=5), MalformedVanillaProof, f"{PLACE}.registered_proof", "a number found, a string"),
    (put("vanilla_proofs", value=None), MalformedVanillaProof, f"{PLACE}.vanilla_proofs", "null found, an object"),
    (put("vanilla_proofs", value={}), MalformedVanillaProof, f"{PLACE}.vanilla_proofs", "nothing found"),
    (
        put("vanilla_proofs", value={"StackedDrg8MiBV1": []}),
        MalformedVanillaProof,
        f"{PLACE}.vanilla_proofs",
        "StackedDrg8MiBV1 found, StackedDrg2KiBV1 prescribed",
    ),
    (put(*PROOFS, value=[]), WrongProofCount, f"{PLACE}.vanilla_proofs.StackedDrg2KiBV1", "0 elements declared, 1"),
    (drop(*PROOFS, 0, 1), WrongProofCount, CHALLENGES, "1 elements declared, 2 prescribed"),
    (drop(*ONE, "encoding_proof"), MalformedVanillaProof, f"{CHALLENGES}[1].encoding_proof", "missing"),
    (
        drop(*ONE, "labeling_proofs", 1),
        MalformedVanillaProof,
        f"{CHALLENGES}[1].labeling_proofs",
        "1 elements declared, 2 prescribed",
    ),
    (
        drop(*ONE, "labeling_proofs", 1, "parents", 36),
        MalformedVanillaProof,
        f"{CHALLENGES}[1].labeling_proofs[1].parents",
        "36 elements declared, 37 prescribed",
    ),
    (
        drop(*ONE, "replica_column_proofs", "exp_parents", 0),
        MalformedVanillaProof,
        f"{CHALLENGES}[1].replica_column_proofs.exp_parents",
        "7 elements declared, 8 prescribed",
    ),
    (
        put(*ONE, "comm_r_last_proof", "data", value={"Sub": {}}),
        MalformedVanillaProof,
        f"{CHALLENGES}[1].comm_r_last_proof.data",
        "Sub found, Single prescribed",
    ),
    (
        put(*ONE, *SINGLE, "path", "path", 1, "index", value=8),
        MalformedVanillaProof,
        f"{CHALLENGES}[1].comm_r_last_proof.data.Single.path.path[1].index",
        "index 8 in a tree of arity 8",
    ),
    (
        put(*ONE, *SINGLE, "leaf", value=[*list(to_bytes(0)[:-1]), 255]),
        NonCanonicalElement,
        f"{CHALLENGES}[1].comm_r_last_proof.data.Single.leaf",
        "not less than the order",
    ),
    (
        put(*ONE, "labeling_proofs", 0, "parents", 5, value=list(MODULUS.to_bytes(32, "little"))),
        NonCanonicalElement,
        f"{CHALLENGES}[1].labeling_proofs[0].parents[5]",
        "not less than the order",
    ),
]


@pytest.mark.parametrize(("change", "error", "field", "text"), DOCUMENTS)
def test_another_form_of_the_document_is_refused(
    change: Callable[[Any], None], error: type[CuzkError], field: str, text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        read(spoiled_c1(change))
    assert type(caught.value) is error
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        (b"[" + b"[]," * 7000 + b"[]]", "7002 objects and lists, at most 6520 allowed"),
        (b"[" + b"0," * 40_000 + b"0]", "40001 values, at most 32600 allowed"),
        (b"[" * 6000, "no JSON document"),
        (b'{"registered_proof": NaN}', "NaN is no JSON"),
    ],
)
def test_what_would_take_much_memory_is_refused_before_it_is_built(inner: bytes, text: str) -> None:
    tracemalloc.start()
    with pytest.raises(MalformedVanillaProof, match=text) as caught:
        c1.read_inner(inner, SHAPE, 5, PLACE)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert caught.value.field == PLACE


class TestBincode:
    @pytest.mark.parametrize("size", [0, 8, 15, 16, 500, 14_000, len(BINCODE) - 1])
    def test_truncated(self, size: int) -> None:
        with pytest.raises(TruncatedVanillaProof, match=r"^c1\..*bytes needed"):
            read_bincode(BINCODE[:size], SHAPE, "c1")

    def test_trailing_bytes(self) -> None:
        with pytest.raises(TrailingBytes, match="1 bytes follow the 28248 bytes"):
            read_bincode(BINCODE + b"\0", SHAPE, "c1")

    @pytest.mark.parametrize(
        ("at", "new", "error", "text"),
        [
            (0, struct.pack("<Q", 1 << 60), WrongProofCount, "c1.vanilla_proofs: 1152921504606846976 elements"),
            (8, struct.pack("<Q", 3), WrongProofCount, r"c1.vanilla_proofs\[0\]: 3 elements declared, 2"),
            (FIRST, struct.pack("<I", 2), MalformedVanillaProof, "variant 2 found, 0 prescribed"),
            (FIRST + 4, b"\xff" * 32, NonCanonicalElement, r"c1.vanilla_proofs\[0\]\[0\].comm_d_proofs.root"),
        ],
    )
    def test_another_form(self, at: int, new: bytes, error: type[CuzkError], text: str) -> None:
        with pytest.raises(error, match=text):
            read_bincode(patched(BINCODE, at, new), SHAPE, "c1")

    @pytest.mark.parametrize("size", ["4KiB", "16KiB", "8MiB"])
    def test_of_another_sector_size(self, size: str) -> None:
        shape = porep_shape(parse_sector_size(size).size)
        with pytest.raises(InvalidInput):
            read_bincode(BINCODE, shape, "c1")

"""Every error of the inputs has a code of its own and a text."""

from __future__ import annotations

import inspect
import re

from prover.errors import CuzkError, describe
from prover.filecoin import errors


def test_codes_are_unique_words_and_every_error_has_a_text() -> None:
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, CuzkError)]
    codes = [found.code for found in classes]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", code) for code in codes)
    assert all(found.__doc__ and found.__doc__.endswith(".") for found in classes)
    assert set(errors.__all__) <= set(vars(errors))


def test_an_error_tells_its_code_and_its_place() -> None:
    error = errors.CommRMismatch(field="vanilla_proofs[3].comm_r")
    assert describe(error) == (
        "comm_r_mismatch",
        "vanilla_proofs[3].comm_r: comm_r is not the hash of comm_c and comm_r_last.",
    )

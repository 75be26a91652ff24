"""ChaCha against published keystreams."""

from __future__ import annotations

from prover.filecoin.chacha import chacha8_u64, chacha20_bytes


def test_chacha8_keystream_of_the_zero_key() -> None:
    # the published test vector of ChaCha8 with a 256-bit zero key and IV (draft-strombergson-chacha-test-vectors, TC1)
    numbers = chacha8_u64(bytes(32))
    first = b"".join(next(numbers).to_bytes(8, "little") for _ in range(8))
    assert first.hex().startswith("3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e")


def test_chacha20_keystream_of_rfc_8439() -> None:
    # section 2.3.2: block 1; section 2.4.2 begins the same way with another nonce
    block = chacha20_bytes(bytes(range(32)), bytes.fromhex("000000090000004a00000000"), 64, 64)
    assert block.hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")


def test_a_keystream_read_in_the_middle_is_the_same() -> None:
    key, nonce = bytes(range(32)), bytes(range(12))
    whole = chacha20_bytes(key, nonce, 0, 300)
    assert [chacha20_bytes(key, nonce, start, 40) for start in (0, 30, 63, 64, 250)] == [
        whole[start : start + 40] for start in (0, 30, 63, 64, 250)
    ]

"""What a browser may send, and what it is told when it sends something else."""

from __future__ import annotations

import json

import pytest

from cuzk_web.live.protocol import MAX_FRAME, MAX_SESSIONS, Ack, BadFrame, Since, body, numbered, parse

SESSION = "7f1b0b1e-6f0c-4d6e-9a53-3a1b2c3d4e5f"


def test_a_cursor_and_an_ack_are_understood() -> None:
    assert parse(json.dumps({"since": {SESSION: 7}})) == Since({SESSION: 7})
    assert parse('{"since": {}}') == Since({})
    assert parse('{"ack": 12}') == Ack(12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "binary"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 60_000, "not JSON"),
        ("[]", "neither"),
        ("7", "neither"),
        ("{}", "neither"),
        ('{"hello": 1}', "neither"),
        ('{"ack": 1, "since": {}}', "neither"),
        ('{"ack": "1"}', "ack: not an integer"),
        ('{"ack": true}', "ack: not an integer"),
        ('{"ack": 1.0}', "ack: not an integer"),
        ('{"ack": -1}', "ack: not an integer"),
        ('{"ack": 1e999}', "ack: not an integer"),
        ('{"ack": 9007199254740992}', "ack: not an integer from 0 to 9007199254740991"),
        ('{"since": []}', "since: not an object"),
        ('{"since": {"x": 1}}', "since: a session is a UUID"),
        (json.dumps({"since": {SESSION: None}}), "not an integer"),
        (json.dumps({"since": {f"{SESSION[:-4]}{n:04x}": 1 for n in range(MAX_SESSIONS + 1)}}), "more than 500"),
        (" " * (MAX_FRAME + 1), "longer than 65536"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str | None, says: str) -> None:
    with pytest.raises(BadFrame, match=says):
        parse(text)


def test_a_frame_is_json_with_its_number_and_times() -> None:
    frame = json.loads(numbered(3, body(10, 9, ['["s",1]', '["s",2]'], '{"s":{}}')))
    assert frame == {"n": 3, "now_us": 10, "read_us": 9, "rows": [["s", 1], ["s", 2]], "live": {"s": {}}}
    assert json.loads(numbered(1, body(10, 9))) == {"n": 1, "now_us": 10, "read_us": 9}

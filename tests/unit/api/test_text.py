"""Text of others is printable wherever it is printed or written."""

import json

import pytest

from provisioner.api.text import printable, quoted

ESCAPED = {
    "plain é 漢 ✗": "plain é 漢 ✗",
    "\x1b[2J": r"\x1b[2J",
    "a\r\nb\tc": r"a\r\nb\tc",
    "\u202egnp.exe": r"\u202egnp.exe",
    "\x9b2J": r"\u009b2J",
    "\u200b\u2028\ufeff": r"\u200b\u2028\ufeff",
    "\U000e0041": r"\udb40\udc41",
    "\ud83d": r"\ud83d",
}


@pytest.mark.parametrize("text", ESCAPED)
def test_characters_that_are_not_printable_are_escaped(text: str) -> None:
    """Control, format and separator characters; letters of all scripts are kept."""
    assert printable(text) == ESCAPED[text]
    assert printable(printable(text)) == ESCAPED[text]


def test_escapes_of_a_json_text_are_those_of_json() -> None:
    """In JSON such characters are within strings, so that the value stays the same."""
    value = {"a": "\u202e\x9b\U000e0041\x7f"}
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "")
    assert json.loads(printable(text, keep="\n")) == {"a": "\u202e\x9b\U000e0041"}


def test_a_quoted_text_is_cut() -> None:
    """Before it is escaped: an annotation can have 256 KiB."""
    assert quoted("x" * 300_000) == f'"{"x" * 64}..."'
    assert quoted("\n", 1) == r'"\n"'

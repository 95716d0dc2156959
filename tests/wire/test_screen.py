"""The terminal emulator of the tests of `try`."""

import pytest

from .screen import Screen

DRAWN = "ab\x1b[31mc\x1b[0m\r\n└ x\x1b[1A\x1b[2K\rZ\x1b[?25h"


def test_output_may_be_split_anywhere() -> None:
    """Also within a control sequence."""
    for first in range(len(DRAWN) + 1):
        for second in range(first, len(DRAWN) + 1):
            screen = Screen(20, 5)
            for part in (DRAWN[:first], DRAWN[first:second], DRAWN[second:]):
                screen.write(part)
            assert (screen.text, screen.colours) == ("Z\n└ x", {"31"})


def test_lines_wrap_and_scroll() -> None:
    """Lines that scrolled away stay readable and cannot be changed."""
    screen = Screen(4, 2)
    screen.write("abcdef\r\nx\r\ny")
    assert screen.text == "abcd\nef\nx\ny"
    screen.write("\x1b[9A\r*")
    assert screen.text == "abcd\nef\n*\ny"
    screen.write("\x1b[2J\x1b[H!")
    assert screen.text == "abcd\nef\n!"


def test_an_unsupported_sequence_fails() -> None:
    """The emulator would otherwise show wrong text."""
    with pytest.raises(AssertionError, match="unsupported sequence"):
        Screen(80, 24).write("\x1b[5;5f")

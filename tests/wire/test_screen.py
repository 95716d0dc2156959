"""The terminal that other tests look at shows what a terminal shows."""

import pytest

from .screen import Screen

DRAWN = "ab\x1b[31mc\x1b[0m\r\n└ x\x1b[1A\x1b[2K\rZ\x1b[?25h"


def test_what_is_drawn_stands_there_however_it_is_cut() -> None:
    """A read may end anywhere, within a sequence too."""
    for first in range(len(DRAWN) + 1):
        for second in range(first, len(DRAWN) + 1):
            screen = Screen(20, 5)
            for part in (DRAWN[:first], DRAWN[first:second], DRAWN[second:]):
                screen.write(part)
            assert (screen.text, screen.colours) == ("Z\n└ x", {"31"})


def test_long_lines_go_on_below_and_old_ones_scroll_away() -> None:
    """What has scrolled away can be read and no longer be drawn over, cleared or reached."""
    screen = Screen(4, 2)
    screen.write("abcdef\r\nx\r\ny")
    assert screen.text == "abcd\nef\nx\ny"
    screen.write("\x1b[9A\r*")
    assert screen.text == "abcd\nef\n*\ny"
    screen.write("\x1b[2J\x1b[H!")
    assert screen.text == "abcd\nef\n!"


def test_what_it_does_not_know_fails() -> None:
    """So that nothing is drawn unseen."""
    with pytest.raises(AssertionError, match="not understood"):
        Screen(80, 24).write("\x1b[5;5f")

"""A terminal emulator: runs the program on a pseudo-terminal, sends keys, and gives the text on the screen.

It supports what a table that is redrawn in place needs: wrapping, scrolling, moving up, erasing lines, clearing. Any
other control sequence fails the test.
Source: https://ecma-international.org/publications-and-standards/standards/ecma-48/,
https://invisible-island.net/xterm/ctlseqs/ctlseqs.html (private modes).
"""

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

from .program import PROGRAM, ROOT, environment

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
# A sequence at the end of a read may be incomplete.
UNFINISHED = re.compile(r"\x1b(\[\??[0-9;]*)?\Z")


class Screen:
    """Lines of text, of which the last `height` are visible; colours are only collected."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._lines = [""]
        self._row = self._column = 0
        self._unfinished = ""
        self.colours: set[str] = set()

    @property
    def text(self) -> str:
        """All lines that were written and not erased, including those that scrolled away, down to the cursor."""
        lines = [line.rstrip() for line in self._lines]
        while len(lines) > self._row + 1 and not lines[-1]:
            lines.pop()
        return "\n".join(lines)

    def write(self, text: str) -> None:
        text, position = self._unfinished + text, 0
        if unfinished := UNFINISHED.search(text):
            text, self._unfinished = text[: unfinished.start()], unfinished.group()
        else:
            self._unfinished = ""
        while position < len(text):
            if found := SEQUENCE.match(text, position):
                self._execute(*found.groups())
                position = found.end()
                continue
            assert text[position] != "\x1b", f"unsupported sequence: {text[position : position + 12]!r}"
            self._put(text[position])
            position += 1

    def _execute(self, private: str, number: str, what: str) -> None:
        match private + what:
            case "m":
                self.colours |= {one for one in number.split(";") if len(one) == 2 and one[0] in "349"}
            case "A":
                self._row = max(self._row - int(number or 1), self._top)
            case "K":
                assert number == "2", "only whole lines can be erased"
                self._lines[self._row] = ""
            case "J":
                self._lines[self._top :] = [""] * (len(self._lines) - self._top)
            case "H":
                self._move(self._top, 0)
            case "?h" | "?l":
                assert number == "25", "only the cursor can be shown or hidden"
            case _:
                raise AssertionError(f"unsupported sequence: {number}{what}")

    @property
    def _top(self) -> int:
        return max(len(self._lines) - self.height, 0)

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._move(self._row + 1, self._column)
        else:
            if self._column == self.width:
                self._move(self._row + 1, 0)
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _move(self, row: int, column: int) -> None:
        self._row, self._column = row, column
        self._lines += [""] * (row + 1 - len(self._lines))


class OnScreen:
    """A running program and its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int, screen: Screen) -> None:
        self.process = process
        self.screen = screen
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.raw = ""

    def until(self, seen: Callable[[str], object], within_seconds: float = 30.0) -> str:
        """Read until the text on the screen satisfies `seen`, or the program ends; the text."""
        deadline = monotonic() + within_seconds
        while not seen(self.screen.text):
            assert monotonic() < deadline, f"timed out:\n{self.screen.text}"
            if not self._read():
                assert seen(self.screen.text), f"the program ended:\n{self.screen.text}"
        return self.screen.text

    def to_the_end(self, within_seconds: float = 30.0) -> int:
        """Read until the program ends; the exit code."""
        deadline = monotonic() + within_seconds
        while self._read():
            assert monotonic() < deadline, f"the program did not end:\n{self.screen.text}"
        return self.process.wait(within_seconds)

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def resize(self, width: int, height: int) -> None:
        """Change the size; existing lines are not rewrapped, as on some terminals."""
        self.screen.width, self.screen.height = width, height
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _read(self) -> bool:
        """Whether the terminal is still open."""
        if not select.select([self._terminal], [], [], 0.1)[0]:
            return True
        try:
            text = self._decoder.decode(os.read(self._terminal, 65536))
        except OSError:  # no process has the terminal open
            return False
        self.raw += text
        self.screen.write(text)
        return True


@contextlib.contextmanager
def on_screen(home: Path, *arguments: str, width: int = 80, height: int = 24, **env: str) -> Iterator[OnScreen]:
    """Run the program in its own session on a terminal, so that Ctrl-C sends SIGINT."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    process = subprocess.Popen(
        ["setsid", "--ctty", PROGRAM, *arguments],
        cwd=ROOT,
        env=environment(home, **{"TERM": "xterm-256color", **env}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield OnScreen(process, master, Screen(width, height))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(master)

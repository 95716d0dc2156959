"""An output that may lose its reader, as in `gpu-provisioner try | head`.

From then on what is written goes nowhere, and the process is asked to end as by SIGTERM: its work stops in its
own order, and nobody is shown a traceback for having read enough.
"""

import io
import os
import signal
from typing import TextIO, cast


class _Piped(io.TextIOBase):
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._read = True

    def write(self, text: str) -> int:
        if self._read:
            try:
                self._out.write(text)
                self._out.flush()
            except BrokenPipeError:
                self._read = False
                # What is still in its buffer would be tried again at exit.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._out.fileno())
                os.close(nowhere)
                signal.raise_signal(signal.SIGTERM)
        return len(text)


def piped(out: TextIO) -> TextIO:
    """`out`, or what stands before it if it is no terminal."""
    return out if out.isatty() else cast("TextIO", _Piped(out))

"""The TLS context of a file of CA certificates, built again when the file changes.

New connections use the current file within `REREAD_SECONDS`; open connections stay open.
"""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from .logs import get_logger

REREAD_SECONDS = 60.0

log = get_logger("tls")


class CaFile:
    """`build` makes a context from the file as it is. The first call raises what `build` raises, and OSError."""

    def __init__(self, path: Path, build: Callable[[], ssl.SSLContext]) -> None:
        self._path = path
        self._build = build
        self._content = path.read_bytes()
        self._context = build()
        self._read_at: float | None = None

    def context(self) -> ssl.SSLContext:
        """The context for the next request. A file that cannot be used leaves the former context in use.

        The read blocks the event loop for microseconds: a mounted file is in tmpfs.
        """
        now = asyncio.get_running_loop().time()
        if self._read_at is None:
            self._read_at = now
        if now - self._read_at >= REREAD_SECONDS:
            self._read_at = now
            self._reread()
        return self._context

    def _reread(self) -> None:
        try:
            content = self._path.read_bytes()
            if content != self._content:
                self._context, self._content = self._build(), content
                log.info("reloaded the CA file", file=str(self._path))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            log.warning("failed to reload the CA file", file=str(self._path), error=type(error).__name__)

"""Closes a watch of a test immediately.

The connection is closed when this returns. A graceful close of TLS waits for the server, and outlives the test's loop:
its socket then fails a later test that collects it.
"""

import aiohttp


def cut(answer: aiohttp.ClientResponse) -> None:
    """Abort the connection of a response that has not ended; no effect if it has."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()

"""How tests leave a watch: at once.

The connection is gone when this returns. A polite end of TLS waits for a server that has nothing to say, and
outlives the test's loop: its socket then fails whichever later test collects it.
"""

import aiohttp


def cut(answer: aiohttp.ClientResponse) -> None:
    """Abort the connection of an answer that has not ended; nothing happens if it has."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()

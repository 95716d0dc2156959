"""Ports of loopback for servers that a test starts, and may start again.

They are below the range from which the kernel takes the ports of outgoing connections: a port of that range that is
free now may belong to a connection when the server starts.
"""

import secrets
import socket
from pathlib import Path

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """So many different ports, on which nothing listens."""
    first = int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else 32768
    found: list[int] = []
    while len(found) < count:
        port = first // 2 + secrets.randbelow(first // 2)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True

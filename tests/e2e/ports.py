"""Ports for servers that get their address as a flag."""

import contextlib
import random
import socket

# The kernel may give any process a port from 32768 on (ip_local_port_range). So a free port of that range may
# be taken by another process before the server has bound it.
NEVER_GIVEN = range(15000, 32768)


def free_ports(number):
    """Returns different ports of the loopback device that are free now."""
    with contextlib.ExitStack() as stack:
        ports = []
        for port in random.sample(NEVER_GIVEN, len(NEVER_GIVEN)):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
            if len(ports) == number:
                return ports
    raise OSError(f"fewer than {number} ports are free")

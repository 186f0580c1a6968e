"""Ports for servers that are told where to listen."""

import contextlib
import random
import socket

# The kernel gives ports from 32768 on to whoever asks for any (ip_local_port_range): a port from there that is free now may be another
# process's a moment later, before its server has bound it.
NEVER_GIVEN = range(15000, 32768)


def free_ports(number):
    """Different ports of the loopback device that are free now."""
    with contextlib.ExitStack() as stack:
        ports = []
        for port in random.sample(NEVER_GIVEN, len(NEVER_GIVEN)):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
            if len(ports) == number:
                return ports
    raise OSError(f"fewer than {number} ports are free")

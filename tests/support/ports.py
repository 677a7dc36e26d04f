"""Ports that are kept for the services of tests."""

import socket


def kept_port() -> socket.socket:
    """Keep a free port of this machine until the socket is closed, also while no service runs.

    The socket is bound and does not listen. So a service that asks for this port gets it, since
    both share the address, and a process that asks for any port gets another one.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place

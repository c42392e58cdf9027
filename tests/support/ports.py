"""Chooses ports for tests. They are below the ports that the kernel gives to connections (32768 and more) and to
servers that ask for any port."""
import random
import socket


def free_port() -> int:
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
                return port
            except OSError:
                continue

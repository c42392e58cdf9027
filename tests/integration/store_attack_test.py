#!/usr/bin/env python3
"""Runs malicious and broken clients against a real server. Its memory stays bounded, it reports which limit was
exceeded, and another client is served throughout.

    store_attack_test.py DDPLAUNCH [WORD]     # only attacks whose name has WORD

Exits with 1 if an attack succeeds.
"""
import contextlib
import os
import pathlib
import random
import resource
import socket
import struct
import sys
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import store_servers  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1]).resolve().parent
PATIENCE = 60.0  # seconds
MIB = 1 << 20
# The limits are small, so that they are reached. The memory that the server may take for all of them together is not
# much more.
LIMITS = ("--store-limit=table-bytes=8MiB,buffer-bytes=32MiB,unsent-bytes=4MiB,request-bytes=16MiB,value-bytes=1MiB,"
          "waiting-bytes=16MiB,connections=600")
# Limits the growth of the launcher's peak memory since its start. Sanitizers need more.
BOUND = 100 * MIB * int(os.environ.get("DDP_TEST_MEMORY_FACTOR", "1"))
VALIDATE = b"\0" + struct.pack("<I", 0x3C85F7CE)
SET, GET, ADD, CHECK, WAIT, MULTI_GET, MULTI_SET = 1, 3, 4, 5, 6, 10, 11


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def texts(*data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + b"".join(map(text, data))


def request(opcode: int, fields: bytes = b"") -> bytes:
    return bytes([opcode]) + fields


class Server:
    """Gives a test access to the server: connections to it, its memory and its messages."""

    def __init__(self, running: store_servers.Server) -> None:
        self.running = running
        self.begin = self.peak()

    def connect(self, greeting: bytes = VALIDATE) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.running.port), PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(greeting)
        return connection

    def peak(self) -> int:
        for line in pathlib.Path(f"/proc/{self.running.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the server has ended")

    def reported(self, reason: str) -> None:
        end = time.monotonic() + PATIENCE
        while reason not in self.running.log.read_text():
            assert time.monotonic() < end, f"no '{reason}' in the log:\n{self.running.log.read_text()}"
            time.sleep(0.01)


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the server closed the connection"
        data += part
    return data


def is_closed(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass


class Bystander(threading.Thread):
    """Is a client that does nothing wrong. Each of its calls must get the right answer."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.connection = server.connect()
        self.calls, self.ended, self.failure = 0, threading.Event(), None

    def call(self) -> None:
        key, value = b"/bystander", str(self.calls).encode()
        self.connection.sendall(request(SET, text(key) + text(value)) + request(CHECK, texts(key)) +
                                request(GET, text(key)) + request(ADD, text(b"/calls") + struct.pack("<q", 1)))
        answer = b"\0" + text(value) + struct.pack("<q", self.calls + 1)
        got = receive(self.connection, len(answer))
        assert got == answer, (got, answer)
        self.calls += 1

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                self.call()
                time.sleep(0.001)
        except Exception as error:  # the main thread reports it
            self.failure = error


@contextlib.contextmanager
def attacked():
    with store_servers.ours(BIN, options=(LIMITS,)) as running:
        server = Server(running)
        bystander = Bystander(server)
        bystander.start()
        try:
            yield server
            calls = bystander.calls
            end = time.monotonic() + PATIENCE
            while bystander.failure is None and bystander.calls < calls + 10:
                assert time.monotonic() < end, "the other client is served no more"
                time.sleep(0.01)
        finally:
            bystander.ended.set()
            bystander.join()
        assert bystander.failure is None, f"another client suffered: {bystander.failure!r}"
        grown = server.peak() - server.begin
        print(f"    memory grew by {grown / MIB:.1f} MiB, {bystander.calls} calls of another client", flush=True)
        assert grown < BOUND, f"the server's memory grew by {grown / MIB:.0f} MiB"


def slowloris(server: Server) -> None:
    """500 connections send a request slowly, one byte every 10 ms. All requests are carried out in the end."""
    whole = [request(ADD, text(b"/slow") + struct.pack("<q", 1))] * 500
    slow = [server.connect(b"") for _ in whole]
    for at in range(len(VALIDATE + whole[0])):
        for connection, words in zip(slow, whole):
            connection.sendall((VALIDATE + words)[at:at + 1])
        time.sleep(0.01)
    assert sorted(struct.unpack("<q", receive(connection, 8))[0] for connection in slow) == list(range(1, 501))


def length_bombs(server: Server) -> None:
    """Clients send every length and every count of a request with values as large as possible."""
    huge = [struct.pack("<Q", size) for size in (1 << 63, (1 << 64) - 1, 1 << 40, 1 << 32)]
    for size in huge:
        bombs = [request(opcode, size) for opcode in (SET, 2, GET, ADD, CHECK, WAIT, 8, 9, MULTI_GET, MULTI_SET, 14, 15, 16,
                                                      18, 0xD1, 0xD3, 0xD4, 0xD5)]
        bombs += [request(SET, text(b"k") + size), request(2, text(b"k") + size), request(2, text(b"k") * 2 + size),
                  request(9, text(b"k") + size), request(14, text(b"k") + size), request(WAIT, struct.pack("<Q", 1) + size),
                  request(MULTI_SET, struct.pack("<Q", 1) + size),
                  request(MULTI_SET, struct.pack("<Q", 1) + text(b"k") + size),
                  request(0xD0, struct.pack("<qI", 0, 2) + size)]
        for bomb in bombs:
            with server.connect() as connection:
                connection.sendall(bomb)
                is_closed(connection)
        for bomb in [request(opcode, size) for opcode in (0, 1, 2, 3, 4, 5, 7, 8)]:
            with server.connect(bomb) as connection:
                is_closed(connection)
    server.reported("(limit")


def unfinished_requests(server: Server) -> None:
    """Many clients each send most of a request of the maximum size, and stop."""
    connections = []
    for _ in range(64):
        connections.append(server.connect())
        with contextlib.suppress(ConnectionError):
            connections[-1].sendall(request(SET, text(b"k") + struct.pack("<Q", MIB) + b"x" * (MIB - 1)))
    server.reported("buffer-bytes")


def connection_flood(server: Server) -> None:
    """A client opens more connections than allowed. After they are closed, the server accepts connections again."""
    flood = []
    for _ in range(900):
        with contextlib.suppress(ConnectionError):
            flood.append(server.connect())
    server.reported("too many connections")
    for connection in flood:
        connection.close()
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(AssertionError, ConnectionError), server.connect() as connection:
            connection.sendall(request(13, struct.pack("<I", 7)))
            assert receive(connection, 4) == struct.pack("<I", 7)
            return
        assert time.monotonic() < end, "there is no room again"
        time.sleep(0.01)


def disconnects(server: Server) -> None:
    """Clients leave in the middle of requests or of replies."""
    choose = random.Random(7)
    whole = (request(SET, text(b"k") + text(b"v" * 5000)) + request(WAIT, texts(b"k", b"absent")) + request(GET, text(b"k")) +
             request(18, text(b"b") + struct.pack("<q", 9)) + request(MULTI_GET, texts(*[b"k"] * 50)) +
             request(0xD0, struct.pack("<qI", 1, 2) + text(b"h:1")) + request(WAIT, texts(*[b"w"] * 1000)))
    for _ in range(1500):
        connection = server.connect()
        connection.sendall(whole[:choose.randrange(len(whole))])
        if choose.random() < 0.5:  # ends the connection with a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def set_big(server: Server) -> None:
    with server.connect() as writer:
        writer.sendall(request(SET, text(b"big") + text(b"x" * (MIB - 100))) + request(CHECK, texts(b"big")))
        assert receive(writer, 1) == b"\0"


def reply_bombs(server: Server) -> None:
    """Clients send short requests whose replies would be larger than all memory."""
    set_big(server)
    for count in (5, 1000, 131_072):
        with server.connect() as connection:
            connection.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError):
                connection.sendall(request(MULTI_GET, texts(*[b"big"] * count)))
            is_closed(connection)
    server.reported("a request whose reply has more than")


def unread_replies(server: Server) -> None:
    """Clients request much data and read nothing."""
    set_big(server)
    deaf = []
    for _ in range(40):
        connection = server.connect()
        deaf.append(connection)
        connection.settimeout(1)
        with contextlib.suppress(OSError):  # the server reads no more, or has closed the connection
            connection.sendall(request(GET, text(b"big")) * 1000)
    server.reported("buffer-bytes")


def full_table(server: Server) -> None:
    """Clients store more than the table may hold. Earlier entries stay."""
    for prefix in (b"values", b"queues", b"counters"):
        for number in range(3):
            with server.connect() as connection, contextlib.suppress(ConnectionError):
                for i in range(40_000 if prefix == b"counters" else 40):
                    key = text(prefix + b"%d.%d" % (number, i) + (b"k" * 1000 if prefix == b"counters" else b""))
                    connection.sendall({b"values": lambda: request(SET, key + text(b"x" * (MIB // 2))),
                                        b"queues": lambda: request(14, key + text(b"x" * (MIB // 2))),
                                        b"counters": lambda: request(ADD, key + struct.pack("<q", 1))}[prefix]())
    server.reported("table-bytes")


def long_waits(server: Server) -> None:
    """Many connections wait for as many keys as a request may have."""
    keys = texts(*[b"%d" % i for i in range(131_072)])
    connections = []
    for _ in range(20):
        connections.append(server.connect())
        with contextlib.suppress(ConnectionError):
            connections[-1].sendall(request(WAIT, keys))
    server.reported("waiting-bytes")


ATTACKS = [slowloris, length_bombs, unfinished_requests, connection_flood, disconnects, reply_bombs, unread_replies,
           full_table, long_waits]


def main() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = 0
    for attack in ATTACKS:
        if word not in attack.__name__:
            continue
        print(f"{attack.__name__}: {attack.__doc__}", flush=True)
        try:
            with attacked() as server:
                attack(server)
        except Exception:  # whatever fails, the other attacks still run
            traceback.print_exc(file=sys.stdout)
            failed += 1
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

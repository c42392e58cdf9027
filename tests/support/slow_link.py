#!/usr/bin/env python3
"""slow_link.py A B: passes frames between two network interfaces, late or never, like a bad cable. The kernel's own
netem is not available everywhere. Prints "ready". Each line of its input is a JSON object of the settings that change:

    delay   seconds that a frame is in transit
    jitter  maximum of further seconds, so that frames overtake one another
    loss    the share of frames that is lost
    cut     "ab", "ba": no frame passes in this direction, "both": none passes, "": all pass
    up, down  seconds for which the link passes frames, and then none, in turn

Ends with its input. The interfaces must not use offloading, because the work that they leave to the hardware would
never be done.
"""
import heapq
import itertools
import json
import os
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
MOST = 1 << 16


def opened(interface: str) -> socket.socket:
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    link.bind((interface, ETH_P_ALL))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    link.setblocking(False)
    return link


class Link:
    def __init__(self) -> None:
        self.rules = {"delay": 0.0, "jitter": 0.0, "loss": 0.0, "cut": "", "up": 0.0, "down": 0.0}
        self.since = time.monotonic()
        self.random = random.Random(7)
        self.under_way: list[tuple[float, int, socket.socket, bytes]] = []
        self.numbers = itertools.count()

    def change(self, line: bytes) -> None:
        change = json.loads(line)
        assert change.keys() <= self.rules.keys(), change
        self.rules.update(change)
        self.since = time.monotonic()

    def passes(self, way: str, now: float) -> bool:
        rules = self.rules
        if rules["cut"] in (way, "both") or self.random.random() < rules["loss"]:
            return False
        return rules["down"] == 0 or (now - self.since) % (rules["up"] + rules["down"]) < rules["up"]

    def take(self, way: str, link: socket.socket, other: socket.socket) -> None:
        while True:
            try:
                frame, address = link.recvfrom(MOST)
            except BlockingIOError:
                return
            now = time.monotonic()
            if address[2] == socket.PACKET_OUTGOING or not self.passes(way, now):
                continue
            due = now + self.rules["delay"] + self.random.uniform(0, self.rules["jitter"])
            heapq.heappush(self.under_way, (due, next(self.numbers), other, frame))

    def deliver(self) -> float | None:
        """Sends all frames whose time has come. Returns the seconds until the next one."""
        while self.under_way:
            due = self.under_way[0][0]
            if due > time.monotonic():
                return max(due - time.monotonic(), 0)
            _, _, link, frame = heapq.heappop(self.under_way)
            try:
                link.send(frame)
            except OSError:
                pass  # the frame is lost, as on a link whose queue is full
        return None


def main() -> None:
    a, b = map(opened, sys.argv[1:3])
    link = Link()
    print("ready", flush=True)
    rest = b""
    while True:
        readable, _, _ = select.select([0, a, b], [], [], link.deliver())
        if 0 in readable:
            got = os.read(0, MOST)
            if not got:
                return
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                link.change(line)
        link.take("ab", a, b)
        link.take("ba", b, a)


main()

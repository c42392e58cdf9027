"""Provides hosts whose packets pass through this process, which may lose or refuse them.

The hosts are those of node_rig.py, but each has a TUN device in place of a switch. A rule is a function of a packet. It
returns what becomes of it: PASS, DROP or REFUSE (the sender gets a reset), or None if the next rule decides.
"""
import collections.abc
import ctypes
import fcntl
import os
import select
import struct
import threading
from typing import NamedTuple

from node_rig import ENTER, REMOTE_SHELL, Hosts, sh

PASS, DROP, REFUSE = "pass", "drop", "refuse"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET = 0x40000000
SYN, RST, ACK = 2, 4, 16


class Packet(NamedTuple):
    sender: int  # number of the host
    to: int
    protocol: int
    from_port: int
    to_port: int
    flags: int  # of TCP
    size: int  # of the IP packet
    content: int  # bytes behind the headers
    bytes: bytes

    @property
    def is_tcp(self) -> bool:
        return self.protocol == 6

    @property
    def opens(self) -> bool:
        return self.is_tcp and self.flags & (SYN | ACK) == SYN


def packet_of(data: bytes) -> Packet | None:
    if len(data) < 20 or data[0] >> 4 != 4:
        return None
    header = (data[0] & 15) * 4
    protocol, from_port, to_port, flags, content = data[9], 0, 0, 0, len(data) - header
    if protocol in (6, 17) and len(data) >= header + 8:
        from_port, to_port = struct.unpack("!HH", data[header:header + 4])
    if protocol == 6 and len(data) >= header + 20:
        flags, content = data[header + 13], len(data) - header - (data[header + 12] >> 4) * 4
    return Packet(data[15], data[19], protocol, from_port, to_port, flags, len(data), content, data)


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def reset_for(packet: Packet) -> bytes:
    """Returns the answer of a host on which no program listens."""
    data = packet.bytes
    header = (data[0] & 15) * 4
    ports = data[header + 2:header + 4] + data[header:header + 2]
    sequence = int.from_bytes(data[header + 4:header + 8], "big") + 1
    tcp = ports + bytes(4) + (sequence & 0xFFFFFFFF).to_bytes(4, "big") + bytes([0x50, RST | ACK]) + bytes(6)
    addresses = data[16:20] + data[12:16]
    sum_of_tcp = checksum(addresses + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
    tcp = tcp[:16] + sum_of_tcp.to_bytes(2, "big") + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + addresses
    return ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:] + tcp


Rule = collections.abc.Callable[[Packet], str | None]


class PacketHosts(Hosts):
    def __init__(self, count: int, mtu: int = 1500):
        self.mtu = mtu
        self.rules: list[Rule] = []
        self.devices: dict[int, int] = {}
        self.is_over = False
        super().__init__(count)

    def make(self) -> None:
        for number in self.numbers:
            host = self.namespace(number)
            sh("ip", "netns", "add", host)
            sh("ip", "-n", host, "link", "set", "lo", "up")
            self.devices[number] = self.open_device(host)
            sh("ip", "-n", host, "addr", "add", f"{self.ip(number)}/24", "dev", "eth0")
            sh("ip", "-n", host, "link", "set", "eth0", "mtu", self.mtu, "up")
            self.name_hosts(number)
        for name, text in (("enter.sh", ENTER), ("remote_shell.sh", REMOTE_SHELL)):
            self.path(name).write_text(text.format(name=self.name, folder=self.folder.name))
            self.path(name).chmod(0o755)
        sh(*map(str, [self.path("enter.sh"), 1, "true"]))
        self.thread = threading.Thread(target=self.forward, daemon=True)
        self.thread.start()

    def open_device(self, host: str) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        its = os.open(f"/run/netns/{host}", os.O_RDONLY)
        try:
            if libc.setns(its, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
            return device
        finally:
            libc.setns(own, CLONE_NEWNET)
            os.close(own)
            os.close(its)

    def forward(self) -> None:
        while not self.is_over:
            for device in select.select(list(self.devices.values()), [], [], 0.2)[0]:
                for _ in range(64):
                    try:
                        data = os.read(device, 65536)
                    except OSError:
                        break
                    packet = packet_of(data)
                    if packet is not None:
                        self.forward_one(device, packet)

    def forward_one(self, device: int, packet: Packet) -> None:
        what = next((found for rule in self.rules if (found := rule(packet)) is not None), PASS)
        try:
            if what == REFUSE:
                os.write(device, reset_for(packet))
            elif what == PASS and packet.to in self.devices:
                os.write(self.devices[packet.to], packet.bytes)
        except OSError:
            pass  # its queue is full, so the packet is lost

    def remove(self) -> None:
        self.is_over = True
        if self.are_apart:
            self.thread.join()
        for device in self.devices.values():
            os.close(device)
        self.devices.clear()
        super().remove()

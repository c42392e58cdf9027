"""Acts as processes that speak the launchers' protocol (docs/development/protocol.md, section 7) to the first node
of a job."""
import contextlib
import json
import pathlib
import socket
import struct
import tempfile

from node_rig import PATIENCE, Hosts, Job, all_well

VALIDATE = b"\0" + struct.pack("<I", 0x3C85F7CE)
CHECK, AUTH_HELLO, CONTROL = 5, 0xD3, 0xD5
CONTROL_VERSION = 15
# This text clears the screen, sets the window's title, ends the line, begins a sequence in one character (C1), and
# reverses the text.
ACTING = "\x1b[2J\x1b]0;title\x07\r\nddplaunch: not a line of the launcher\u009b31m\u202e"
SEPARATORS = "\x85\u2028"  # Python takes them for line ends, also within JSON
HOST = f"a\x1b[2J\nb\u009b31m\u202ec{SEPARATORS}d"
LONG = ACTING + 100_000 * "x"
LINES_PER_ADDRESS = 5
ADDRESSES = 64
LINE_BYTES = 1024  # maximum of a line about a refused peer: 500 bytes from the peer, and the launcher's own text
LAST = "(further lines about this address are not shown)"
GO_ON = "while [ ! -e $0 ]; do sleep 0.05; done; echo worker done"


class Loopback(Hosts):
    """Uses this computer several times, even if namespaces can be made."""

    def __init__(self) -> None:
        self.name, self.switch, self.numbers, self.are_apart = "loopback", "loopbacks", range(0), False
        self.folder = tempfile.TemporaryDirectory(prefix=self.name)


loopback = Loopback()


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def message(name: str, /, **fields: object) -> bytes:
    return json.dumps({"is": name, "of": fields}).encode()


def fingerprint_of(program: str) -> str:
    """Returns the FNV-1a hash that a launcher computes of the program's file."""
    state = 0xCBF29CE484222325
    for byte in pathlib.Path(program).resolve().read_bytes():
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


ELECTORATE = {"attempt": -1, "nodes": 0, "leader": -1, "gone": []}
HISTORY = {"job_began": 0, "counted": 0, "in_vain": 0, "last_counts": False, "last_is_seen": False, "is_repeated": False,
           "last_error": "", "last_step": -1}
STANDING = {"job_key": "", "electorate": ELECTORATE, "successors": [], "history": HISTORY}
VOTE = {"job_key": "", "attempt": -1, "electorate": ELECTORATE, "history": HISTORY, "memberships": [], "has_ended": True}
SAME = {"program sh": fingerprint_of("/bin/sh")}


def hello(**fields: object) -> bytes:
    """Returns the first message of a launcher of this job, with `fields` replaced."""
    return message("hello", **{"version": CONTROL_VERSION, "job": "none", "host": "peer-host", "node_rank": -1,
                               "workers": 1, "nodes": "2", "same": SAME, "alike": {}, "monotonic": 0, "time_of_day": 0,
                               "port": 0, "vote": VOTE, **fields})


def connected(job: Job, source: str = "127.0.0.1", greeting: bytes = VALIDATE) -> socket.socket:
    host, port = job.endpoint.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), PATIENCE, (source, 0))
    connection.sendall(greeting)
    return connection


def read_to_end(connection: socket.socket) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            said += part
    return said


def says(job: Job, what: bytes, source: str = "127.0.0.1") -> bytes:
    """Sends a message as a peer that is not a node of the job. Returns the answer, up to the end of the connection."""
    with connected(job, source) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(bytes([CONTROL]) + text(what))
        return read_to_end(connection)


def is_refused(answer: bytes) -> str:
    (size,) = struct.unpack("<Q", answer[:8])
    refusal = json.loads(answer[8:8 + size])
    assert refusal["is"] == "refuses" and len(answer) == 8 + size, answer
    return refusal["of"]["why"]


def until_listening(job: Job) -> None:
    # The launcher prints the address once it listens, or while it looks for a node that listens. On a loopback address
    # it is in the warning.
    job.until_said(1, "127.0.0.1")


def is_clean(said: str) -> None:
    for line in said.splitlines():
        assert line.isprintable(), f"the console shows {line!r}"
        assert not line.startswith("ddplaunch: not a line"), f"a peer's line looks like the launcher's: {line!r}"


def lines_on(said: str, what: str) -> list[str]:
    return [line for line in said.splitlines() if what in line]


def ends_well(job: Job) -> dict[int, str]:
    """Waits for a good end of the job. Returns what the launchers printed."""
    ends = job.ends()
    all_well(ends)
    assert all("worker done" in out for _, out, _ in ends.values()), ends
    for _, _, err in ends.values():
        is_clean(err)
    return {number: err for number, (_, _, err) in ends.items()}


def few_lines(said: str, addresses: list[str], what: str = "was refused") -> None:
    """Checks that each address has five lines, of which the last announces that no more follow."""
    for address in addresses:
        lines = lines_on(said, f"({address}) {what}")
        assert len(lines) == LINES_PER_ADDRESS, (address, len(lines), lines[:10])
        assert [line.endswith(LAST) for line in lines] == 4 * [False] + [True], lines
        assert all(len(line.encode()) <= LINE_BYTES for line in lines), [len(line.encode()) for line in lines]


def cause(**fields: object) -> dict:
    return {"text": "", "node": "", "exit_code": 0, "signal": 0, "knowledge": "certain", "lost_peer": -1,
            "may_restart": False, "not_restarted": "", "exit_timed_out": False, "gave_up": False, "has_saved": False,
            "is_urgent": False, "code": "program", "error": "", **fields}


def waiting_job() -> Job:
    """Starts a job whose first node waits for the second one."""
    job = Job(loopback, "--nproc-per-node=1", "sh", "-c", "echo worker done").start(1)
    until_listening(job)
    return job


def running_job(folder: str, *options: str) -> Job:
    """Starts a job on two nodes, which runs until there is a file `go` in the folder."""
    job = Job(loopback, "--nproc-per-node=1", *options, "sh", "-c", GO_ON, f"{folder}/go").start(1)
    until_listening(job)  # the first launcher listens first, so that it is the first node
    return job.start(2).until_all_run()

#!/usr/bin/env python3
"""bad_nodes_test.py BIN_DIR [WORD]: nodes that belong to the job, or are its first node, send messages that no
launcher sends. The console shows no control character and no endless line, and the job does not end with success."""
import contextlib
import os
import pathlib
import socket
import struct
import subprocess
import threading

from node_rig import BIN, PATIENCE, Hosts, Job, run_tests
from refused_peers import (ACTING, CHECK, CONTROL, LINE_BYTES, LONG, STANDING, VALIDATE, cause, connected, ends_well,
                           hello, is_clean, loopback, message, read_to_end, says, text, until_listening, waiting_job)


class FalseFirstNode:
    """Acts as the store of a first node, and answers the first hello with `messages`."""

    def __init__(self, *messages: bytes) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.messages = messages
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    @staticmethod
    def receive(connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += (part := connection.recv(size - len(data)))
            if not part:
                raise ConnectionError
        return data

    def serve(self) -> None:
        self.listener.settimeout(PATIENCE)
        with contextlib.suppress(OSError), self.listener.accept()[0] as connection:
            connection.settimeout(PATIENCE)
            self.receive(connection, len(VALIDATE) + 1)
            connection.sendall(self.receive(connection, 4))  # the server answers the PING
            assert self.receive(connection, 1)[0] == CHECK
            self.receive(connection, 8 + 8 + len("ddplaunch/extensions"))
            connection.sendall(b"\0")
            assert self.receive(connection, 1)[0] == CONTROL
            self.receive(connection, *struct.unpack("<Q", self.receive(connection, 8)))
            connection.sendall(b"".join(map(text, self.messages)))
            read_to_end(connection)

    def __enter__(self) -> "FalseFirstNode":
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        self.thread.join()


def a_false_first_node_cannot_act_on_the_terminal(_: Hosts) -> None:
    begins = {"attempt": 0, "node_rank": 1, "node_count": 2, "first_rank": 1, "world_size": 2, "nodes": ACTING,
              "may_restart": False, "image_cost": 0.0,
              "restore": {"attempt": 0, "step": 0, "lost_steps": 0, "image": "", "ranks": [], "transfers": []},
              "standing": STANDING}
    for code, messages, words in (
            (125, [message("waits", text=ACTING, is_spare=False, standing=STANDING),
                   message("refuses", why=ACTING, job_key="")], "does not accept this node"),
            (3, [message("waits", text=LONG, is_spare=True, standing=STANDING),
                 message("done", cause=cause(text=LONG, node=LONG, exit_code=3))],
             "\\x1b[2J"),
            (3, [message("begins", name=ACTING, **begins),
                 message("ends", attempt=0, cause=cause(text=ACTING, node=ACTING, exit_code=3)),
                 message("restarts", text=ACTING),
                 message("done", cause=cause(text=ACTING, node=ACTING, exit_code=3, not_restarted=ACTING))], "\\x1b[2J")):
        with FalseFirstNode(*messages) as first:
            end = subprocess.run([BIN / "ddplaunch", "--nnodes=2", "--node-rank=1", f"--master-port={first.port}",
                                  "--master-addr=127.0.0.1", "--nproc-per-node=1", "sleep", "1000"], capture_output=True,
                                 timeout=PATIENCE)
        err = end.stderr.decode()
        assert end.returncode == code and words in err and "title" in err, (end.returncode, err[:3000])
        is_clean(err)


def end_with_a_bad_node(*messages: bytes) -> tuple[int, str, str]:
    """Returns how the first node's launcher ends after the second node, which takes part in the job, has sent these
    messages."""
    job = Job(loopback, "--nproc-per-node=1", "sh", "-c", "exec sleep 1000").start(1)
    until_listening(job)
    with connected(job) as bad:
        bad.sendall(bytes([CONTROL]) + text(hello(host=ACTING)))
        job.until(1, "worker_started")
        bad.sendall(b"".join(bytes([CONTROL]) + text(each) for each in (*messages, message("ended", attempt=0, progress="none", kept=[]))))
        read_to_end(bad)  # returns when the job is over
    end = job.end_of(1)
    job.nothing_survives()
    is_clean(end[1] + end[2])
    return end


def is_cut(fields: dict) -> None:
    code, _, err = end_with_a_bad_node(message("failed", attempt=0, cause=cause(exit_code=3, **fields)))
    assert code == 3, (code, err[-3000:])
    longest = max(err.splitlines(), key=len)
    assert len(longest.encode()) <= 2 * LINE_BYTES, (list(fields), len(longest), longest[:300])


def the_failure_text_of_a_bad_node_is_escaped_and_cut(_: Hosts) -> None:
    is_cut({"text": LONG})


def the_node_name_that_a_bad_node_blames_is_escaped_and_cut(_: Hosts) -> None:
    is_cut({"text": "bad", "node": LONG})


def the_reason_of_a_bad_node_not_to_restart_is_escaped_and_cut(_: Hosts) -> None:
    is_cut({"text": "bad", "not_restarted": LONG})


def a_failure_on_a_bad_node_is_not_a_success(_: Hosts) -> None:
    """The exit code in the message must not matter: this node's rank was terminated because of the failure."""
    for code in (0, 256, -1, 1 << 30):
        got, _, err = end_with_a_bad_node(message("failed", attempt=0, cause=cause(exit_code=code, text="bad")))
        assert got != 0 and "bad" in err, (code, got, err)


def output_of_other_nodes_is_shown_only_on_request(_: Hosts) -> None:
    shows = [message("shows", attempt=0, what=what) + b"\n" + b"not asked for\n" for what in ("output", "errors")]
    code, out, err = end_with_a_bad_node(*shows, message("failed", attempt=0, cause=cause(exit_code=3, text="bad")))
    assert code == 3 and "not asked for" not in out + err, (code, out, err)


def a_message_costs_little_memory(_: Hosts) -> None:
    """The message has the maximum size and the content that takes most memory to parse."""
    job = waiting_job()
    children = pathlib.Path(f"/proc/{job.launchers[1].pid}/task/{job.launchers[1].pid}/children").read_text().split()

    def peak() -> int:
        status = pathlib.Path(f"/proc/{children[0]}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) >> 10
    before = peak()
    most = 8 << 20
    for words in (b"[" * most, b'{"a":' * (most // 5), b"[" + b"0," * (most // 2 - 1) + b"0]", b'{"is":"hello","of":[' + b"{}," * (most // 4)):
        assert says(job, words[:most]) == b""
    grown = peak() - before
    print(f"    memory grew by {grown} MiB", flush=True)
    ends_well(job.start(2))
    assert grown < 100 * int(os.environ.get("DDP_TEST_MEMORY_FACTOR", "1")), f"the launcher's memory grew by {grown} MiB"


if __name__ == "__main__":
    with loopback:
        run_tests(loopback, [a_false_first_node_cannot_act_on_the_terminal,
                             the_failure_text_of_a_bad_node_is_escaped_and_cut,
                             the_reason_of_a_bad_node_not_to_restart_is_escaped_and_cut,
                             the_node_name_that_a_bad_node_blames_is_escaped_and_cut,
                             a_failure_on_a_bad_node_is_not_a_success, output_of_other_nodes_is_shown_only_on_request,
                             a_message_costs_little_memory])

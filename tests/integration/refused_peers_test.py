#!/usr/bin/env python3
"""refused_peers_test.py BIN_DIR [WORD]: tests processes that speak the launchers' protocol and do not belong to the
job. Whatever they send, the console shows few lines and no control character, and the job ends as it would without
them."""
import tempfile

from node_rig import Hosts, run_tests
from refused_peers import (ACTING, ADDRESSES, CONTROL, HOST, LAST, LINES_PER_ADDRESS, LINE_BYTES, LONG, SAME, cause,
                           connected, ends_well, few_lines, hello, is_refused, lines_on, loopback, message, running_job,
                           says, text, waiting_job)

# Maps a field to a hello and to words of the refusal. The field shows that the hello's node does not belong to the job.
# Each field holds long text that acts on terminals.
FOREIGN: dict[str, tuple[dict, str]] = {
    "job": ({"job": LONG}, "it belongs to job '\\x1b[2J\\x1b]0;title\\x07\\x0d\\x0addplaunch: not a line"),
    "nodes": ({"nodes": LONG}, "it has --nnodes=\\x1b[2J\\x1b]0;title\\x07\\x0d\\x0addplaunch: not a line"),
    "program": ({"same": {"program sh": LONG}}, "it would run another program (program sh: \\x1b[2J\\x1b]0;title"),
    "name of the program": ({"same": {**SAME, LONG: LONG}}, "it would run another program (\\x1b[2J\\x1b]0;title"),
    "workers": ({"workers": 1_000_000_000}, "it has 1000000000 workers and --node-rank=-1, which no launcher sends"),
    "number": ({"node_rank": -7}, "it has 1 workers and --node-rank=-7, which no launcher sends"),
    "a number": ({"node_rank": 1}, "it has --node-rank=1, but the first node has none. Give it to all nodes or to none"),
    "version": ({"version": 1 << 30}, "it runs another version of ddplaunch"),
}


def each_field_is_shown_escaped_and_cut(_: Hosts) -> None:
    """Each field is sent from another address, so that its line is shown."""
    job = waiting_job()
    sources = {name: f"127.0.2.{number}" for number, name in enumerate(FOREIGN, 1)}
    for name, (fields, words) in FOREIGN.items():
        why = is_refused(says(job, hello(host=HOST, **fields), sources[name]))
        assert words in why and len(why.encode()) <= LINE_BYTES and why.isprintable(), (name, why[:2000])
    said = ends_well(job.start(2))[1]
    for name, (_, words) in FOREIGN.items():
        lines = lines_on(said, f"({sources[name]}) was refused: ")
        assert len(lines) == 1 and words in lines[0], (name, lines, said)
        assert lines[0].startswith("ddplaunch: warning: node a\\x1b[2J\\x0ab\\xc2\\x9b31m\\xe2\\x80\\xaec\\xc2\\x85\\xe2\\x80\\xa8d (127.0.2."), lines
        assert len(lines[0].encode()) <= LINE_BYTES, len(lines[0].encode())


def thousands_of_refused_peers_give_five_lines(_: Hosts) -> None:
    """The first node waits for the second one, which has the same address as the refused peers."""
    job = waiting_job()
    for number in range(3000):
        kind = list(FOREIGN)[number % len(FOREIGN)]
        fields = dict(FOREIGN[kind][0])
        if number >= 2 * len(FOREIGN):  # later hellos are short
            fields = {"job": f"{ACTING}{number}"}
        is_refused(says(job, hello(host=f"{ACTING}{number}", **fields)))
    few_lines(ends_well(job.start(2))[1], ["127.0.0.1"])


def thousands_of_refused_peers_give_five_lines_while_the_job_runs(_: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = running_job(folder)
        for number in range(1000):
            is_refused(says(job, hello(job=ACTING + str(number), host=ACTING)))
            # This node belongs to the job, but the job is full.
            is_refused(says(job, hello(host=ACTING + str(number))))
        open(f"{folder}/go", "x").close()
        few_lines(ends_well(job)[1], ["127.0.0.1"])


def many_addresses_give_a_bounded_number_of_lines(_: Hosts) -> None:
    job = waiting_job()
    addresses = [f"127.0.3.{number}" for number in range(1, 101)]
    for _ in range(LINES_PER_ADDRESS + 3):
        for address in addresses:
            is_refused(says(job, hello(job="\x1b"), address))  # the hello is short because the console is not read
    said = ends_well(job.start(2))[1]
    few_lines(said, addresses[:ADDRESSES])
    assert len(lines_on(said, "was refused")) == ADDRESSES * LINES_PER_ADDRESS, said[-2000:]


def nodes_that_join_and_leave_give_five_lines(_: Hosts) -> None:
    """These nodes belong to the job and wait for a place in it, but it has all of its nodes. They differ in values
    that should be alike, and leave."""
    with tempfile.TemporaryDirectory() as folder:
        job = running_job(folder, "--max-restarts=1")
        for number in range(1000):
            length = 100_000 if number < 10 else 10
            alike = {f"{ACTING}{number}": ACTING + length * "x", "NCCL_DEBUG": f"{ACTING}{number}"}
            with connected(job) as spare:
                spare.sendall(bytes([CONTROL]) + text(hello(host=ACTING, alike=alike, time_of_day=number)))
                said = b""
                while b"waits until it can join" not in said:
                    said += (more := spare.recv(65536))
                    assert more, said
        open(f"{folder}/go", "x").close()
        said = ends_well(job)[1]
        lines = [line for line in said.splitlines() if "peer-host" in line or "not a line of the launcher" in line]
        assert len(lines) == LINES_PER_ADDRESS, (len(lines), lines[:10])
        assert [line.endswith(LAST) for line in lines] == 4 * [False] + [True], lines
        assert all(len(line.encode()) <= 2 * LINE_BYTES for line in lines), [len(line.encode()) for line in lines]


def a_message_that_is_not_a_hello_gets_no_answer(_: Hosts) -> None:
    job = waiting_job()
    why = cause(text=LONG, node=LONG, exit_code=3, signal=15, not_restarted=LONG)
    nonsense = [b"", b"\n", ACTING.encode(), b"\xff\xfe\x9b", b"{}", b"[]", b"null", b"[" * 100_000, b'{"is":"hello"}',
                message(LONG), message("hello", job=ACTING), message("heartbeat"), message("done", cause=why),
                message("failed", attempt=0, cause=why), message("left", attempt=0, rank=0),
                message("ended", attempt=0, progress="some", kept=[]), message("ends", attempt=0, cause=why),
                message("shows", attempt=0, what="output") + b"\n" + LONG.encode(), hello(workers=ACTING),
                hello(monotonic="1e999"), hello()[:-1], hello() + b"}"]
    for _ in range(50):
        for words in nonsense:
            answer = says(job, words)
            assert answer == b"", (words[:100], answer[:1000])
    said = ends_well(job.start(2))[1]
    assert len(lines_on(said, "127.0.0.1:")) < 20, said


if __name__ == "__main__":
    with loopback:
        run_tests(loopback, [each_field_is_shown_escaped_and_cut, thousands_of_refused_peers_give_five_lines,
                             thousands_of_refused_peers_give_five_lines_while_the_job_runs,
                             many_addresses_give_a_bounded_number_of_lines, nodes_that_join_and_leave_give_five_lines,
                             a_message_that_is_not_a_hello_gets_no_answer])

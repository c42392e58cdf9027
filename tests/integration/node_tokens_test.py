#!/usr/bin/env python3
"""node_tokens_test.py BIN_DIR [WORD]: tests launchers and other programs that try to join a job without its token.
Without network namespaces, only the loopback interface is tested."""
import os
import pathlib
import subprocess
import tempfile

from node_rig import PATIENCE, Hosts, Job, run_tests
from refused_peers import (ACTING, AUTH_HELLO, CONTROL, LAST, LINES_PER_ADDRESS, LINE_BYTES, LONG, VALIDATE, ends_well,
                           hello, lines_on, loopback, text)


def first_node_of(hosts: Hosts, *options: str, environment: dict[str, str] | None = None) -> Job:
    job = Job(hosts, "--nproc-per-node=1", "--rdzv-conf=join_timeout=50", *options, "sh", "-c", "echo worker done")
    job.start(1, environment=environment).until_said(1, "waiting for 1 of 2 nodes")  # the coordinator listens when it prints this
    return job


def tokens() -> list[str]:
    return [f"a token of the test's own {os.urandom(16).hex()}" for _ in range(2)]


def a_launcher_with_another_token_is_reported_on_both_sides(hosts: Hosts) -> None:
    """Node 3 has another token than nodes 1 and 2, and tries three times."""
    right, wrong = tokens()
    job = first_node_of(hosts, environment={"DDP_AUTH_TOKEN": right})
    for _ in range(3):
        code, out, err = job.start(3, environment={"DDP_AUTH_TOKEN": wrong}).end_of(3)
        job.launchers.pop(3)
        assert code == 125 and "worker done" not in out, (code, out, err)
        assert f"the store at {job.endpoint} has another token. Give both sides the same one" in err, err
    said = ends_well(job.start(2, environment={"DDP_AUTH_TOKEN": right}))
    lines = lines_on(said[1], "it has another token (--auth-token-file, DDP_AUTH_TOKEN)")
    assert len(lines) == 1 and f"the store refused {hosts.ip(3)}:" in lines[0], said[1]
    assert right not in said[1] and wrong not in said[1], said[1]


def a_launcher_with_another_token_is_reported_on_loopback(_: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, token in zip(("right", "wrong"), tokens()):
            pathlib.Path(folder, name).write_text(token)
            pathlib.Path(folder, name).chmod(0o600)
        job = first_node_of(loopback, f"--auth-token-file={folder}/right")
        code, out, err = job.start(2, f"--auth-token-file={folder}/wrong").end_of(2)
        assert code == 125 and "worker done" not in out, (code, out, err)
        assert f"the store at {job.endpoint} has another token. Give both sides the same one" in err, err
        said = ends_well(job.start(2, f"--auth-token-file={folder}/right"))[1]
        assert "the store refused 127.0.0.1:" in said and "it has another token" in said, said
        assert "has no effect" not in err, f"a token that makes a difference is said to have no effect: {err}"


def a_launcher_without_the_token_is_reported_on_both_sides(hosts: Hosts) -> None:
    right, _ = tokens()
    job = first_node_of(hosts, environment={"DDP_AUTH_TOKEN": right})
    code, out, err = job.start(3, "--rdzv-conf=join_timeout=4").end_of(3)
    job.launchers.pop(3)
    assert code == 125 and "worker done" not in out and "token" in err and "--auth-token-file" in err, (code, err)
    said = ends_well(job.start(2, environment={"DDP_AUTH_TOKEN": right}))[1]
    lines = lines_on(said, f"the store refused {hosts.ip(3)}:")
    assert 1 <= len(lines) <= LINES_PER_ADDRESS and "--auth-token-file" in lines[0], said


def a_token_for_a_job_without_one_is_reported(hosts: Hosts) -> None:
    job = first_node_of(hosts)
    code, _, err = job.start(3, environment={"DDP_AUTH_TOKEN": tokens()[0]}).end_of(3)
    job.launchers.pop(3)
    assert code == 125 and "has no token, so it accepts no proof. Start it with --auth-token-file, or leave the option out here" in err, err
    said = ends_well(job.start(2))[1]
    assert f"the store refused {hosts.ip(3)}:" in said and "it offers a token, but the store has none" in said, said


def unauthenticated_peers_change_nothing(hosts: Hosts) -> None:
    """Another host sends hellos and nonsense to a store that requires a token."""
    right, _ = tokens()
    job = first_node_of(hosts, environment={"DDP_AUTH_TOKEN": right})
    host, port = job.endpoint.rsplit(":", 1)
    script = """if True:
        import socket, sys
        words = [bytes.fromhex(word) for word in sys.stdin.read().split()]
        for number in range(2000):
            with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as connection:
                try:
                    connection.sendall(words[number % len(words)])
                    while connection.recv(65536):
                        pass
                except ConnectionError:
                    pass"""
    words = [VALIDATE + bytes([CONTROL]) + text(hello(host=ACTING)), VALIDATE + bytes([CONTROL]) + text(hello(job=LONG)),
             VALIDATE + bytes([AUTH_HELLO]) + text(32 * b"\x1b") + bytes([AUTH_HELLO + 1]) + text(32 * b"\x9b"),
             ACTING.encode() + 1000 * b"\x1b", VALIDATE + b"\1" + text(LONG.encode())]
    subprocess.run([*hosts.inside(3), "python3", "-c", script, host, port], check=True, text=True, timeout=5 * PATIENCE,
                   input=" ".join(word.hex() for word in words))
    said = ends_well(job.start(2, environment={"DDP_AUTH_TOKEN": right}))[1]
    lines = lines_on(said, hosts.ip(3))
    assert len(lines) == LINES_PER_ADDRESS and lines[-1].endswith(LAST), (len(lines), lines[:10])
    assert all("the store refused" in line and len(line.encode()) <= LINE_BYTES for line in lines), lines


if __name__ == "__main__":
    with loopback, Hosts(3) as rig:
        run_tests(rig, [*([a_launcher_with_another_token_is_reported_on_both_sides,
                           a_launcher_without_the_token_is_reported_on_both_sides,
                           a_token_for_a_job_without_one_is_reported,
                           unauthenticated_peers_change_nothing] if rig.are_apart else []),
                        a_launcher_with_another_token_is_reported_on_loopback])

#!/usr/bin/env python3
"""Tests `ddplaunch store`: serving, --inspect, --join. argv[1] is ddplaunch."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from launched_job import LAUNCHER, Job, Skip, command_of, eventually, processes, python, run_tests, test, machines  # noqa: E402

INTERPRETER = environments.find("pytorch") or environments.DEBIAN
TOKEN = "0123456789abcdef0123456789abcdef"


def command(*words: str, via=(), environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([*via, LAUNCHER, "store", *words], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **(environment or {})))


class Store(Job):
    """Serves a store at a free port, or as `words` say."""

    def __init__(self, *words: str, **options):
        super().__init__(*words, launcher=(LAUNCHER, "store", "--port=0", "--port-file=port"), **options)

    def __enter__(self):
        def written() -> bool:
            assert self.process.poll() is None, self.err()
            return os.path.exists(self.path("port"))
        eventually("the port file", written)
        self.port = int(pathlib.Path(self.path("port")).read_text())
        self.where = f"127.0.0.1:{self.port}"
        return self

    def reported(self, text: str) -> None:
        eventually(f"{text!r} in the store's errors", lambda: text in self.err())


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


class Client:
    """Sends raw bytes to a store, in the current dialect."""

    def __init__(self, port: int, host: str = "127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=20)
        self.name = "%s:%d" % self.socket.getsockname()[:2]
        self.socket.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def hears(self, count: int) -> bytes:
        heard = b""
        while len(heard) < count:
            more = self.socket.recv(count - len(heard))
            assert more, "the store has closed the connection"
            heard += more
        return heard

    def hello(self, rank: int, world_size: int) -> "Client":
        self.socket.sendall(b"\xd0" + struct.pack("<qI", rank, world_size) + text(b"node0:%d" % (4000 + rank)))
        self.hears(8)
        return self

    def set(self, key: bytes, value: bytes) -> None:
        self.socket.sendall(b"\1" + text(key) + text(value))

    def get(self, key: bytes) -> bytes:
        self.socket.sendall(b"\3" + text(key))
        return self.hears(struct.unpack("<Q", self.hears(8))[0])

    def waits(self, *keys: bytes) -> None:
        self.socket.sendall(b"\6" + struct.pack("<Q", len(keys)) + b"".join(map(text, keys)))


def inspected(where: str, *words: str, **options) -> dict:
    answer = command("--inspect", where, "--json", *words, **options)
    assert answer.returncode == 0, answer
    return json.loads(answer.stdout)


def token_file(job: Job, name: str = "token", token: str = TOKEN) -> str:
    path = pathlib.Path(job.path(name))
    path.touch(mode=0o600)
    path.write_text(token + "\n")
    return str(path)


@test("store", "clients of a served store meet in it, and its first line says how to find it")
def serves() -> None:
    with Store() as store:
        with Client(store.port) as anna, Client(store.port) as bert:
            bert.waits(b"/k")
            anna.set(b"/k", b"value")
            assert bert.hears(1) == b"\0"
            assert bert.get(b"/k") == b"value"
        first = store.err().splitlines()[0]
        assert first.startswith(f"ddplaunch: the store listens on {store.where}; "), first
        assert f"MASTER_ADDR=127.0.0.1 MASTER_PORT={store.port} TORCHELASTIC_USE_AGENT_STORE=True " in first, first
        assert not store.out()


@test("store", "a store that is asked to end exits with code 0 even if clients are connected")
def ends() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        with Store() as store, Client(store.port) as anna:
            anna.waits(b"/never")
            store.signal(number)
            assert store.wait() == 0, (number, store.err())
            try:
                assert anna.socket.recv(1) == b""
            except ConnectionResetError:
                pass  # the store ended before it had read this client's request
            assert len(store.err().splitlines()) == 1, store.err()


@test("store", "a signal ignored at the start (nohup) stays ignored")
def nohup() -> None:
    with Store(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as store:
        store.signal(signal.SIGHUP)
        with Client(store.port) as anna:
            anna.set(b"/k", b"v")
            assert anna.get(b"/k") == b"v"
        store.signal(signal.SIGTERM)
        assert store.wait() == 0


@test("store", "a second store at the same port suggests a command that shows the first")
def port_taken() -> None:
    with Store() as store:
        second = command(f"--port={store.port}")
        assert second.returncode == 125, second
        assert "Address already in use" in second.stderr, second
        assert f"ddplaunch store --inspect {store.where} " in second.stderr, second
        assert inspected(store.where)["client_count"] == 0


@test("store", "a port file that cannot be written ends the store with a reason")
def port_file_fails() -> None:
    answer = command("--port=0", "--port-file=/nonexistent/port")
    assert answer.returncode == 125, answer
    assert "cannot write --port-file=/nonexistent/port: No such file or directory." in answer.stderr, answer


@test("store", "a client that breaks a limit is disconnected and reported, and others are not affected")
def limits() -> None:
    with Store("--store-limit=key-bytes=8,connections=5", "--store-limit=value-bytes=16") as store:
        with Client(store.port) as anna, Client(store.port) as bert:
            bert.set(b"/a-key-that-is-too-long", b"")
            assert bert.socket.recv(1) == b""
            anna.set(b"/k", b"v")
            assert anna.get(b"/k") == b"v"
            store.reported(f"warning: the store refused {bert.name}: ")


@test("store", "warnings about clients are bounded")
def warnings_are_bounded() -> None:
    with Store() as store:
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", store.port), timeout=20) as unknown:
                unknown.sendall(b"GET / HTTP/1.1\r\n\r\n" * 4)
                assert unknown.recv(1) == b""
        store.reported("further store warnings are not shown")
        lines = [line for line in store.err().splitlines() if "warning" in line]
        assert len(lines) == 21, lines


@test("store", "an inspection shows waiting, idle and missing clients and the keys")
def inspects() -> None:
    with Store() as store, contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(Client(store.port)).hello(rank, 5) for rank in (0, 1, 3)]
        unknown = stack.enter_context(Client(store.port))
        unknown.set(b"/a\x1b[2Jb", b"12345")
        ranks[1].waits(b"/go")
        ranks[2].waits(b"/go")
        eventually("two waits", lambda: sum(c["waiting_ms"] is not None for c in inspected(store.where)["clients"]) == 2)
        answer = command("--inspect", store.where)
        assert answer.returncode == 0 and not answer.stderr, answer
        said = answer.stdout
        assert said.startswith(f"The store at {store.where} has 1 key in "), said
        assert re.search(r'^2 clients wait for "/go":\n  rank [13] .*\n  rank [13] ', said, re.MULTILINE), said
        assert re.search(r"^Connected and not waiting, rank 0:\n  rank 0 .*node0:4000$", said, re.MULTILINE), said
        assert "\nNot connected: ranks 2, 4\n" in said, said
        client = r"^1 other client, connected for:\n  no rank .*" + re.escape(unknown.name)
        assert re.search(client, said, re.MULTILINE), said
        assert '  5 B  "/a\\x1b[2Jb"\n' in said, said
        report = inspected(store.where)
        assert set(report) == {"where", "key_count", "table_bytes", "client_count", "absent_ranks", "clients", "keys"}
        assert report["keys"] == [{"name": "/a\x1b[2Jb", "bytes": 5, "queued": None}], report
        assert report["client_count"] == len(report["clients"]) == 4, report
        assert report["absent_ranks"] == "2, 4", report
        waiting = {client["peer"]: client for client in report["clients"] if client["waiting_ms"] is not None}
        assert set(waiting) == {ranks[1].name, ranks[2].name}, report
        assert waiting[ranks[2].name]["awaited"] == ["/go"] and waiting[ranks[2].name]["rank"] == 3, report


@test("store", "an inspection whose output has no reader fails")
def inspection_is_not_read() -> None:
    with Store() as store, open("/dev/full", "w") as full:
        answer = subprocess.run([LAUNCHER, "store", "--inspect", store.where], stdout=full, stderr=subprocess.PIPE)
        assert answer.returncode == 125 and b"cannot write" in answer.stderr, answer


@test("store", "the store of a running job can be inspected")
def inspects_job() -> None:
    script = ("import socket, struct\n"
              "s = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))\n"
              "s.sendall(b'\\0' + struct.pack('<I', 0x3C85F7CE))\n"
              "s.sendall(b'\\6' + struct.pack('<QQ', 1, 5) + b'/x/%d/' % rank)\n"
              "print('port', os.environ['MASTER_PORT'], flush=True)\ns.recv(1)")
    with Job("--nproc-per-node=2", *python(script)) as job:
        job.wait_for("port", 2)
        where = "127.0.0.1:" + re.search(r"port (\d+)", job.out())[1]

        def both_wait() -> bool:
            said = command("--inspect", where).stdout
            return '1 client waits for "/x/0/":' in said and '1 client waits for "/x/1/":' in said
        eventually("both ranks' waits", both_wait)
        report = inspected(where)
        assert sorted(client["rank"] for client in report["clients"]) == [0, 1], report
        assert sorted(client["name"].split(":")[1] for client in report["clients"]) == sorted(
            str(pid) for pid in processes(job.mark) if command_of(pid).startswith(sys.executable)), report
        job.signal(signal.SIGTERM)
        job.wait()
        assert "while waiting" not in job.err(), job.err()


@test("store", "ranks of clients that send no rank are named when one leaves during a wait")
def names_who_left() -> None:
    script = ("import socket, struct, time\n"
              "if rank == 2: time.sleep(100)\n"
              "s = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))\n"
              "s.sendall(b'\\0' + struct.pack('<I', 0x3C85F7CE))\n"
              "if rank == 1: time.sleep(100)\n"
              "s.sendall(b'\\6' + struct.pack('<QQ', 1, 2) + b'/x')\n"
              "while not os.path.exists('go'): time.sleep(0.01)\ns.close()\n"
              "while not os.path.exists('end'): time.sleep(0.01)\nsys.exit(3)")
    with Job("--nproc-per-node=3", *python(script)) as job:
        where = eventually("the store", lambda: re.search(r"store (127\S+:\d+)", job.err()))[1]
        eventually("the store has looked for the rank that waits", lambda: [
            client for client in inspected(where)["clients"] if client["rank"] == 0 and (client["waiting_ms"] or 0) > 5000])
        pathlib.Path(job.path("go")).touch()
        eventually("its end is noticed", lambda: "left while waiting" in job.err())
        pathlib.Path(job.path("end")).touch()
        assert job.wait() == 3, job.err()
        said = [line for line in job.err().splitlines() if "store: " in line]
        assert len(said) == 1 and re.search(
            r"warning: store: rank 0 \(\S+:\d+\) left while waiting for key '/x' after \d+\.\d s; rank 0 waits or waited for it; "
            r"rank 1 is connected but does not; rank 2 is not connected$", said[0]), job.err()


@test("store", "IPv6 addresses are printed in brackets")
def ipv6() -> None:
    if not os.path.exists("/proc/net/if_inet6") or "::1" not in subprocess.getoutput("getent ahosts ::1"):
        raise Skip("no IPv6 here")
    with Store("--host=::1") as store:
        answer = command("--inspect", f"[::1]:{store.port}")
        assert answer.returncode == 0 and answer.stdout.startswith(f"The store at [::1]:{store.port} has "), answer
        assert "and 0 clients.\n" in answer.stdout, answer


@test("store", "a missing store and another service at the port are distinguished in the message")
def not_ours() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        where = "127.0.0.1:%d" % listener.getsockname()[1]
        answer = command("--inspect", where)
        assert answer.returncode == 125 and f"cannot reach a store at {where}: Connection refused." in answer.stderr, answer
        listener.listen()
        asking = subprocess.Popen([LAUNCHER, "store", "--inspect", where], stderr=subprocess.PIPE, text=True)
        peer, _ = listener.accept()
        peer.sendall(b"SSH-2.0-OpenSSH\r\n")
        errors = asking.communicate()[1]
        assert asking.returncode == 125 and f"{where} is not a store" in errors, errors
        assert "Only ddplaunch's own store can be inspected." in errors, errors


@test("store", "ranks of PyTorch, with what the first line tells them, meet in the store")
def pytorch_meets() -> None:
    work = ("import sys\ntry: import torch.distributed as d, torch\nexcept ImportError: sys.exit(77)\n"
            "d.init_process_group('gloo')\nones = torch.ones(3)\nd.all_reduce(ones)\nassert ones.tolist() == [2, 2, 2]\n"
            "d.barrier()\nd.destroy_process_group()")  # else a thread of PyTorch may still run when the process exits
    with Store() as store:
        reported = dict(word.strip(",").split("=") for word in store.err().split() if "=" in word)
        ranks = [subprocess.Popen([INTERPRETER, "-c", work], stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, **reported, "RANK": str(rank), "WORLD_SIZE": "2"})
                 for rank in range(2)]
        errors = [rank.communicate()[1] for rank in ranks]
        if ranks[0].returncode == 77:
            raise Skip(f"{INTERPRETER} has no torch")
        assert [rank.returncode for rank in ranks] == [0, 0], errors
        assert inspected(store.where)["key_count"] > 0
        store.signal(signal.SIGTERM)
        assert store.wait() == 0 and "warning" not in store.err(), store.err()


@test("store", "PyTorch's own store is named as such")
def pytorchs() -> None:
    serve = ("import sys\ntry: from torch.distributed import TCPStore\nexcept ImportError: sys.exit(77)\n"
             "store = TCPStore('127.0.0.1', 0, 1, True)\nprint(store.port, flush=True)\nsys.stdin.read()")
    with subprocess.Popen([INTERPRETER, "-c", serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as theirs:
        port = theirs.stdout.readline().strip()
        if not port:
            raise Skip(f"{INTERPRETER} has no torch")
        answer = command("--inspect", f"127.0.0.1:{port}")
        proved = command("--inspect", f"127.0.0.1:{port}", environment={"DDP_AUTH_TOKEN": TOKEN})
        theirs.stdin.close()
    for each in (answer, proved):
        assert each.returncode == 125, each
        assert "is PyTorch's store" in each.stderr and "Only ddplaunch's own store can be inspected." in each.stderr, each


@test("store", "a member keeps its connection until it is asked to end or the store exits")
def joins() -> None:
    with Store(environment={"DDP_AUTH_TOKEN": TOKEN}) as store:
        joined = f"this node has joined the store at {store.where}; "
        words = (LAUNCHER, "store", "--join", store.where, "--auth-token-file", token_file(store))
        for number in (signal.SIGTERM, signal.SIGINT):
            with Job(launcher=words) as member:
                eventually("the member's line", lambda: joined in member.err())
                assert inspected(store.where)["client_count"] == 1
                member.signal(number)
                assert member.wait() == 0, member.err()
        with Job(launcher=words) as member:
            eventually("the member's line", lambda: joined in member.err())
            store.signal(signal.SIGTERM)
            assert store.wait() == 0
            assert member.wait() == 125
            assert f"the store at {store.where} is no longer reachable (it has closed the connection)." in member.err(), member.err()


@test("store", "a member that starts first waits for its store")
def joins_early() -> None:
    with socket.socket() as reserved:  # no other process can get the port
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        where = f"127.0.0.1:{port}"
        variables = {"DDP_AUTH_TOKEN": TOKEN}
        with Job(launcher=(LAUNCHER, "store", "--join", where), environment=variables) as member:
            eventually("the member's wait", lambda: "Connection refused; trying again" in member.err())
            with Job(launcher=(LAUNCHER, "store", f"--port={port}"), environment=variables) as store:
                eventually("the member's line", lambda: "has joined the store" in member.err())
                member.signal(signal.SIGTERM)
                assert member.wait() == 0
                store.signal(signal.SIGTERM)
                assert store.wait() == 0


@test("store", "a member without the right token gets an error with the reason")
def wrong_token() -> None:
    with Store(environment={"DDP_AUTH_TOKEN": TOKEN}) as store, Store() as open_store:
        other = token_file(store, "other", "x" * 32)
        answer = command("--join", store.where, "--auth-token-file", other)
        assert answer.returncode == 125 and "has another token" in answer.stderr, answer
        eventually("the store's own word", lambda: "it has another token (--auth-token-file" in store.err())
        assert "x" * 32 not in answer.stderr
        assert command("--join", store.where).returncode == 2
        answer = command("--join", open_store.where, "--auth-token-file", other)
        assert answer.returncode == 125 and "has no token" in answer.stderr, answer
        os.chmod(other, 0o644)
        answer = command("--join", store.where, "--auth-token-file", other)
        assert answer.returncode == 2 and "chmod 600" in answer.stderr, answer
        answer = command("--join", store.where, "--auth-token-file", other, environment={"DDP_AUTH_TOKEN": TOKEN})
        assert answer.returncode == 2 and "both provide a token" in answer.stderr, answer


@test("store", "programs of another machine may use the store while it has joined, and not before or after")
def another_machine() -> None:
    talk = ("import socket, struct, sys\ns = socket.create_connection(('10.98.76.1', int(sys.argv[1])), 20)\n"
            "s.sendall(b'\\0' + struct.pack('<I', 0x3C85F7CE) + b'\\7')\nprint(len(s.recv(8)))")
    with machines(2) as (here, there):
        with Store("--host=10.98.76.1", via=here, environment={"DDP_AUTH_TOKEN": TOKEN}) as store:
            where = f"10.98.76.1:{store.port}"
            token = token_file(store)

            def may_use() -> bool:
                words = [*there, sys.executable, "-c", talk, str(store.port)]
                answer = subprocess.run(words, capture_output=True, text=True)
                return answer.stdout == "8\n"
            assert not may_use()
            store.reported("whose launcher has not proved that it knows the token")
            refused = command("--inspect", where, via=there)
            assert refused.returncode == 125 and "Give the token with --auth-token-file" in refused.stderr, refused
            assert inspected(where, "--auth-token-file", token, via=there)["client_count"] == 0
            with Job(launcher=(LAUNCHER, "store", "--join", where, "--auth-token-file", token), via=there) as member:
                eventually("the member's line", lambda: "has joined" in member.err())
                assert may_use()
                member.signal(signal.SIGTERM)
                assert member.wait() == 0
            eventually("the member is forgotten", lambda: not may_use())


sys.exit(run_tests())

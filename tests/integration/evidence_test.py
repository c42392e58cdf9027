#!/usr/bin/env python3
"""evidence_test.py BIN_DIR: checks what the launcher reports of NCCL's RAS and of PyTorch's flight recorders if a
job hangs. Both are fakes."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

BIN = pathlib.Path(sys.argv[1])

STATUS = """NCCL version 2.24.3 compiled with CUDA 12.6

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)

Warnings
========

#0-0 (cf264af53edbe986) MISMATCH
  1 rank has launched up to operation 6649
"""

# Does what PyTorch's ranks do: each has a pipe, and writes a file when it can read from the pipe.
WORKER = """
import os, sys, threading, time
rank = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + rank + ".pipe"
def record():
    while True:
        with open(pipe) as end:
            end.read()
        with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "w") as file:
            file.write("what rank " + rank + " did last")
if rank != "2":
    os.mkfifo(pipe)
    threading.Thread(target=record, daemon=True).start()
time.sleep(1000)
"""


def serve_ras(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as stream:
            assert stream.readline().startswith("CLIENT PROTOCOL ")
            print("SERVER PROTOCOL 2", file=stream, flush=True)
            assert stream.readline().startswith("TIMEOUT ")
            print("OK", file=stream, flush=True)
            command = stream.readline()
            # On a busy computer, the launcher may ask for JSON before it has read the workers' pages.
            if command == "SET FORMAT json\n":
                print("ERROR: Unknown command SET FORMAT JSON", file=stream, flush=True)
                command = stream.readline()
            if command == "VERBOSE STATUS\n":
                stream.write(STATUS)


def launch(folder: str, program: list, **environment: str) -> tuple[str, dict]:
    done = subprocess.run([BIN / "ddplaunch", "--nproc_per_node=3", "--hang-timeout=6", f"--log-dir={folder}/logs", *program],
                          capture_output=True, text=True, timeout=120, env=dict(os.environ, **environment))
    assert done.returncode == 124, done
    dump = next(pathlib.Path(folder).glob("logs/**/dump_1.json"))
    return done.stderr, {source["name"]: source for source in json.loads(dump.read_text())["stall"]["sources"]}


def evidence_of_nccl_is_reported_and_dumped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=serve_ras, args=(listener,), daemon=True).start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        report, sources = launch(folder, [BIN / "hanging_worker", "pause"], NCCL_RAS_ADDR=address)
    assert sources["NCCL RAS"] == {"name": "NCCL RAS", "text": STATUS, "missing": []}, sources
    for line in ("DEAD", "  1 job process is considered dead", "#0-0 (cf264af53edbe986) MISMATCH"):
        assert f"ddplaunch:   NCCL RAS: {line}" in report, report


def an_evidence_source_that_does_not_answer_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "127.0.0.1:%d" % listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        report, sources = launch(folder, [BIN / "hanging_worker", "pause"], NCCL_RAS_ADDR=address)
    assert f"NCCL RAS: no process listens on {address}" in report and sources["NCCL RAS"]["missing"], report


def flight_recorders_are_asked() -> None:
    with tempfile.TemporaryDirectory() as folder:
        worker = pathlib.Path(folder) / "worker.py"
        worker.write_text(WORKER)
        report, sources = launch(folder, [worker], TORCH_NCCL_DEBUG_INFO_PIPE_FILE=f"{folder}/pipe_",
                                 TORCH_FR_DUMP_TEMP_FILE=f"{folder}/record_")
        assert pathlib.Path(folder, "record_1").read_text() == "what rank 1 did last"
    assert f"flight recorder: files of ranks 0, 1: {folder}/record_<rank>" in report, report
    assert f"flight recorder: rank 2: no pipe {folder}/pipe_<rank>.pipe" in report, report
    assert "rank 0: " in sources["flight recorder"]["text"], sources


if __name__ == "__main__":
    for check in [evidence_of_nccl_is_reported_and_dumped, an_evidence_source_that_does_not_answer_is_reported,
                  flight_recorders_are_asked]:
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}")

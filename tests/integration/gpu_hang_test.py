#!/usr/bin/env python3
"""gpu_hang_test.py BIN_DIR: tests jobs whose GPU hangs, on fakes of the driver and of NCCL (tests/support/fake_gpu)."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()
GPUS = pathlib.Path(FOLDER.name, "gpus")  # what the driver says of them: they have memory left
GPUS.write_text("".join(f"GPU-{i} 100 0 - -\n" for i in range(4)))
os.environ |= {"FAKE_NVML": str(GPUS), "FAKE_GPU_PEERS": "mirror",
               "LD_LIBRARY_PATH": f"{os.environ['LD_LIBRARY_PATH']}:{BIN.parent}/fake_nvml"}


def a_gpu_that_does_not_come_to_the_collective_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "events"
        done = subprocess.run([BIN / "ddplaunch", "--nproc_per_node=3", "--hang-timeout=6", f"--event-log={log}",
                               BIN / "gpu_hanging_worker"], capture_output=True, text=True, timeout=120)
        events = map(json.loads, log.read_text().splitlines())
        stalls = [event["stall"] for event in events if event["event"] == "hang" and event["state"] == "hung"]
    assert done.returncode == 124 and len(stalls) == 1, done
    stall = stalls[0]
    assert stall["code"] == "DDP-H10" and stall["culprits"] == [1], stall
    number = stall["number"]
    gpus = {rank["rank"]: rank["groups"][0]["gpu"] for rank in stall["ranks"]}
    assert gpus[1] == {"queued": number, "started": number - 1, "finished": number - 1}, gpus
    assert gpus[0] == gpus[2] == {"queued": number, "started": number, "finished": number - 1}, gpus
    assert f"the GPU of rank 1 has not started all_reduce average f32[1024] ('bucket 0') (#{number} of world)" in done.stderr, done
    assert f"its GPU has not started #{number}" in done.stderr and f"its GPU is executing #{number}" in done.stderr, done


def with_gpus(count: int = 2) -> list:
    """Returns the beginning of a command line that sees so many GPUs."""
    gpus = " && ".join(f"mkdir -p /proc/driver/nvidia/gpus/0000:0{i}:00.0 && printf 'Model: Fake\\nGPU UUID: GPU-{i}\\nDevice Minor: {i}\\n'"
                       f" > /proc/driver/nvidia/gpus/0000:0{i}:00.0/information" for i in range(count))
    return ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs /proc/driver && {gpus} && exec "$@"', "sh"]


def the_doctor_proves_it_beside_a_job_that_hangs() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    job = subprocess.Popen([*with_gpus(), BIN / "ddplaunch", "--nproc_per_node=2", "--hang-timeout=5", "--hang-action=warn",
                            BIN / "gpu_hanging_worker"], stderr=subprocess.PIPE, text=True)
    said = ""
    while "DDP-H10" not in said:
        said += job.stderr.readline()
    doctor = subprocess.run([*with_gpus(), BIN / "ddplaunch", "doctor", "--deep"], capture_output=True, text=True, timeout=120)
    assert job.poll() is None, said
    job.terminate()
    job.communicate(timeout=60)
    assert "FAIL     peer-writes    GPU 0 → GPU 1, GPU 1 → GPU 0: writes never arrive" in doctor.stdout and doctor.returncode == 2, doctor


def the_launcher_proves_it_beside_workers_that_go_on() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    beside = "check of this node, beside its workers: peer-writes: "
    proofs = {"": beside + "GPU 0 → GPU 1, GPU 1 → GPU 0: writes never arrive", "used=80400": beside + "a GPU has 1.5 GiB free"}
    for memory, proof in proofs.items():
        with tempfile.TemporaryDirectory() as folder:
            job = subprocess.Popen(
                [*with_gpus(), BIN / "ddplaunch", "--nproc_per_node=2", "--hang-timeout=5", "--hang-action=dump",
                 f"--event-log={folder}/events", BIN / "gpu_hanging_worker"], stderr=subprocess.PIPE, text=True,
                env={**os.environ, "FAKE_NVML_HEALTH": memory})
            said = ""
            while beside not in said:
                said += job.stderr.readline()
            assert job.poll() is None and "DDP-H10" in said and proof in said, said
            job.terminate()
            job.communicate(timeout=60)
            events = map(json.loads, pathlib.Path(folder, "events").read_text().splitlines())
            messages = [event["text"] for event in events if event["event"] == "message"]
            assert any(text.startswith(proof) for text in messages), messages


def each_node_proves_it_for_its_own_gpus() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = []
    for node in range(2):
        uuids = ",".join(f"{node + 1:030d}{gpu:02d}" for gpu in range(2))
        nodes.append(subprocess.Popen(
            [*with_gpus(4), BIN / "ddplaunch", "--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1",
             f"--master-port={port}", "--nproc_per_node=2", "--hang-timeout=5", "--hang-action=dump", BIN / "gpu_hanging_worker"],
            stderr=subprocess.PIPE if node == 0 else subprocess.DEVNULL, text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": f"{2 * node},{2 * node + 1}", "FAKE_GPU_UUIDS": uuids,
                 "NCCL_HOSTID": f"host{node}"}))
    said, seen = "", 0
    while seen < 2:
        line = nodes[0].stderr.readline()
        said, seen = said + line, seen + ("peer-writes: GPU" in line)
    for node in nodes:
        assert node.poll() is None, said
        node.terminate()
    for node in nodes:
        node.communicate(timeout=60)
    for name, pair in ("", "GPU 0 → GPU 1, GPU 1 → GPU 0"), ("#2", "GPU 2 → GPU 3, GPU 3 → GPU 2"):
        assert f"{name}, beside its workers: peer-writes: {pair}: writes never arrive" in said, said


def proofs(mark: str) -> int:
    """Returns the number of processes of `ddplaunch doctor` with this variable in their environment."""
    count = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_doctor = b"doctor\0--node\0--deep" in (process / "cmdline").read_bytes()
            count += is_doctor and f"MARK={mark}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            pass
    return count


def a_proof_ends_when_the_job_goes_on() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    mark = f"{os.getpid()}"
    job = subprocess.Popen(
        [*with_gpus(), BIN / "ddplaunch", "--nproc_per_node=2", "--hang-timeout=5", "--hang-action=dump", "--log-level=debug",
         BIN / "gpu_hanging_worker", "9"], stderr=subprocess.PIPE, text=True, env={**os.environ, "FAKE_GPU_PEERS": "hang", "MARK": mark})
    said, most = "", 0
    while "the job continues: " not in said:
        line = job.stderr.readline()
        assert line, said
        said += line
        while "proving whether the GPUs" in line and most == 0 and job.poll() is None:
            most = proofs(mark)
    while proofs(mark) > 0 and job.poll() is None:
        time.sleep(0.01)
    assert job.poll() is None and most > 0, (most, said)
    said += job.communicate(timeout=60)[1]
    assert job.returncode == 0 and "peer-writes" not in said, said


def a_job_whose_gpus_cannot_write_to_each_other_says_so_and_falls_back() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    inside = with_gpus()
    program = f'if [ "$NCCL_P2P_DISABLE" = 1 ]; then echo "rank $RANK is done"; else exec {BIN}/gpu_hanging_worker; fi'
    ends, events, reports = {}, {}, {}
    for options in ((), ("--fallback", "--max-restarts=2")):
        with tempfile.TemporaryDirectory() as folder:
            ends[options] = subprocess.run(
                [*inside, BIN / "ddplaunch", "--nproc_per_node=2", "--hang-timeout=5", f"--event-log={folder}/events",
                 f"--report={folder}/report.html", *options, "sh", "-c", program],
                capture_output=True, text=True, timeout=240)
            events[options] = [json.loads(line) for line in pathlib.Path(folder, "events").read_text().splitlines()]
            reports[options] = pathlib.Path(folder, "report.html").read_text()
            subprocess.run([BIN / "ddplaunch", "report", f"{folder}/events", "-o", f"{folder}/again.html"], check=True, timeout=60)
            again = pathlib.Path(folder, "again.html").read_text()
        proof = "GPU 0 → GPU 1, GPU 1 → GPU 0: writes never arrive, although the writer reads them back. Through host memory, all arrive"
        assert f"check of this node: peer-writes: {proof}" in ends[options].stderr, ends[options]
        assert proof in reports[options] and proof in again, reports[options]
    assert ends[()].returncode == 124 and "starts again" not in ends[()].stderr, ends
    done = ends["--fallback", "--max-restarts=2"]
    assert done.returncode == 0 and "rank 0 is done" in done.stdout + done.stderr, done
    assert "  the ways are checked first (--fallback)" in done.stderr, done
    assert "the job starts again with NCCL_P2P_DISABLE=1, since the check has shown that this works (--fallback)" in done.stderr, done
    # The attempts of both starts are those of one job.
    of_job = events["--fallback", "--max-restarts=2"]
    assert [event["attempt"] for event in of_job if event["event"] == "attempt_started"] == [0, 1], of_job
    assert [event.get("attempts_before") for event in of_job if event["event"] == "job_started"] == [None, 1], of_job
    assert "DDP-H10" in reports["--fallback", "--max-restarts=2"], reports


if __name__ == "__main__":
    a_gpu_that_does_not_come_to_the_collective_is_named()
    the_doctor_proves_it_beside_a_job_that_hangs()
    the_launcher_proves_it_beside_workers_that_go_on()
    each_node_proves_it_for_its_own_gpus()
    a_proof_ends_when_the_job_goes_on()
    a_job_whose_gpus_cannot_write_to_each_other_says_so_and_falls_back()

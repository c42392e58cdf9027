#!/usr/bin/env python3
"""gpu_hang_test.py BIN_DIR: tests jobs whose GPU hangs, on fakes of the driver and of NCCL (tests/support/fake_gpu)."""
import json
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1])


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


if __name__ == "__main__":
    a_gpu_that_does_not_come_to_the_collective_is_named()

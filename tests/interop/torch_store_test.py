#!/usr/bin/env python3
"""Tests an unmodified PyTorch as a client of ddplaunch's store.

    torch_store_test.py client|groups|agent BIN_DIR ENVIRONMENT

client: makes every call that PyTorch's client has. groups: runs a job of four ranks with sub-groups. agent: two
torchrun agents complete a rendezvous (c10d, is_host=0) and run a worker each. Runs with the PyTorch of the environment
(support/environments.py). Exits with 77 if it is missing.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import environments  # noqa: E402
import store_servers  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[2]).resolve()
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
PATIENCE = 240


def run(*words) -> str:
    result = subprocess.run([str(word) for word in words], env=ENVIRONMENT, text=True, timeout=PATIENCE,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(result.stdout, flush=True)
    assert result.returncode == 0, f"{words}: exit code {result.returncode}"
    return result.stdout


def client(python: str) -> None:
    with store_servers.ours(BIN) as server:
        run(python, HERE / "torch_store_client.py", server.port, BIN / "ddplaunch")


def groups(python: str) -> None:
    output = run(BIN / "ddplaunch", "-q", "--nproc-per-node=4", python, HERE / "torch_groups.py")
    assert output.count("groups ok") == 4


def agent(python: str) -> None:
    # The maps name no rank of the job: with "0", which is the default, torchrun 1.13 does not start under Python 3.11.
    old = ["-r", "9:1", "-t", "9:1"] if store_servers.torch_version(python).startswith("1.") else []
    with store_servers.ours(BIN) as server:
        words = [python, "-m", "torch.distributed.run", *old, "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d",
                 "--rdzv_conf=is_host=0", f"--rdzv_endpoint=127.0.0.1:{server.port}", "--rdzv_id=interop",
                 str(HERE / "torch_agent.py")]
        agents = [subprocess.Popen(words, env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT) for _ in range(2)]
        try:
            outputs = [each.communicate(timeout=PATIENCE)[0] for each in agents]
        finally:
            for each in agents:
                each.kill()
                each.wait()
    print(*outputs, flush=True)
    assert [each.returncode for each in agents] == [0, 0]
    found = sorted(re.findall(r"agent worker: rank=(\d) of 2 sum=1 node=(\d)", "".join(outputs)))
    assert found == [("0", "0"), ("1", "1")], found


def main() -> int:
    {"client": client, "groups": groups, "agent": agent}[sys.argv[1]](environments.need(sys.argv[3]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

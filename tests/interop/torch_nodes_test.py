#!/usr/bin/env python3
"""torch_nodes_test.py BIN_DIR ENVIRONMENT: a PyTorch script with DistributedDataParallel on two nodes with two workers each
gives the same result as on one node with four."""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import environments  # noqa: E402
import node_rig  # noqa: E402  (it reads sys.argv, too)

PYTHON = environments.need(sys.argv[2])
SCRIPT = """
import torch, torch.distributed as dist

torch.manual_seed(0)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(7))
wanted = inputs.sum(1, keepdim=True)
for step in range(50):
    optimizer.zero_grad()
    loss = ((model(inputs[rank::size]) - wanted[rank::size]) ** 2).mean()
    loss.backward()
    optimizer.step()
loss = loss.detach().clone()
dist.all_reduce(loss)
if rank == 0:
    print("loss %.7f" % (loss.item() / size), flush=True)
# Without this line, PyTorch itself may abort at the end, also under torchrun.
dist.destroy_process_group()
"""


def loss(outputs: list[str]) -> str:
    found = re.findall(r"loss (\S+)", "".join(outputs))
    assert len(found) == 1, outputs
    return found[0]


rig = node_rig.Hosts(2)
try:
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "train.py"
        script.write_text(SCRIPT)
        alone = subprocess.run([node_rig.BIN / "ddplaunch", "--nproc-per-node=4", PYTHON, script], capture_output=True,
                               text=True, timeout=120)
        # The import of PyTorch takes seconds, in four processes.
        ends = node_rig.Job(rig, "--nproc-per-node=2", PYTHON, script).start(1).start(2).ends(seconds=120)
        assert all(code == 0 for code, _, _ in ends.values()), ends
        losses = [loss([alone.stdout]), loss([out for _, out, _ in ends.values()])]
        assert len(set(losses)) == 1, losses
        print(f"ok: {losses}")
finally:
    rig.remove()

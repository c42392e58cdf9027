"""Provides what the scripts of frameworks_test.py share: their options, their data, a fault, and their report."""
import argparse
import hashlib
import os
import sys

import torch

ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
RANK = int(os.environ.get("RANK", 0))
FAILS_AT = 6  # the step at which rank 1 fails
SAVES_EVERY = 4  # steps between two checkpoints


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True, help="the folder for checkpoints")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--failing-attempts", type=int, default=0, help="rank 1 fails in the first N attempts")
    parser.add_argument("--bar", action="store_true", help="the framework shows its progress bar")
    parser.add_argument("--local_rank", "--local-rank", type=int, help="given by torch.distributed.launch")
    return parser.parse_args()


def fail_if_asked(options: argparse.Namespace, step: int) -> None:
    if RANK == 1 and ATTEMPT < options.failing_attempts and step == FAILS_AT:
        raise ValueError(f"the data of step {step} is gone in attempt {ATTEMPT}")


def make_data() -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(512, 4, generator=generator)
    return torch.utils.data.TensorDataset(inputs, inputs @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]]))


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def say(text: str) -> None:
    """Prints a line with one write, so that lines of two ranks in one pipe do not mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def said_step(step: int) -> None:
    if RANK == 0:
        say(f"step {step} is done")


def report(model: torch.nn.Module, world_size: int, steps: int, resumed_at: int) -> None:
    """Prints the values that frameworks_test.py compares. They include a hash of this rank's own parameters."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.state_dict().items()):
        digest.update(name.encode() + parameter.detach().cpu().contiguous().numpy().tobytes())
    say(f"trained: rank={RANK} world_size={world_size} attempt={ATTEMPT} resumed_at={resumed_at} steps={steps}"
        f" hash={digest.hexdigest()[:16]}")

"""What the failing PyTorch programs have in common.

`program` and `failure` register a program with its number of ranks, the rank that fails first (the culprit), and what
the report shows of its error. The line that the report names as the place of an exception has the comment "# fails".
"""
import collections

Program = collections.namedtuple("Program", "ranks culprit says run")
PROGRAMS = {}
SLOW_EXIT = 2.5  # seconds that a rank needs to exit; longer than the ranks need that lose it


def program(ranks, culprit, says):
    """Registers a program that every rank runs."""
    def note(function):
        PROGRAMS[function.__name__] = Program(ranks, culprit, says, function)
        return function
    return note


def failure(ranks, culprit, says):
    """Registers a program that the culprit runs. The other ranks lose it in an all_reduce."""
    def note(function):
        def run(rank):
            if rank.fails:
                function(rank)
            rank.steps()

        PROGRAMS[function.__name__] = Program(ranks, culprit, says, run)
        return function
    return note


class Rank:
    """A rank whose process group has worked once."""

    def __init__(self, culprit):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        dist.init_process_group("gloo")
        self.number, self.size = dist.get_rank(), dist.get_world_size()
        self.fails = self.number == culprit
        self.step()

    def step(self):
        self.dist.all_reduce(self.torch.ones(4))

    def steps(self):
        for _ in range(3):
            self.step()

    def exit_slowly(self):
        """Lets this process leave its group at exit, and then send its last lines like a logger. The others lose it
        long before it has exited."""
        import atexit
        import time

        atexit.register(time.sleep, SLOW_EXIT)
        atexit.register(self.dist.destroy_process_group)  # the last function is called first


class TrainerError(Exception):
    pass

"""Makes Trainer fail on rank 1 at step 6 of the first attempt, because LLaMA-Factory runs no script of the user that
could.

Python runs this file at its start if its folder is in PYTHONPATH. The file changes Trainer's module after it is loaded.
"""
import importlib.abc
import importlib.machinery
import os
import sys


class Loader(importlib.abc.Loader):
    def __init__(self, loader) -> None:
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module) -> None:
        self.loader.exec_module(module)
        training_step = module.Trainer.training_step

        def failing_step(trainer, *arguments, **named):
            if trainer.state.global_step == 5:
                raise ValueError("the data of step 6 is gone in attempt 0")
            return training_step(trainer, *arguments, **named)

        module.Trainer.training_step = failing_step


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "transformers.trainer":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Loader(spec.loader)
        return spec


if os.environ.get("RANK") == "1" and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
    sys.meta_path.insert(0, Finder())

#!/usr/bin/env python3
"""torch_lost_gpu_test.py DDPLAUNCH [FAULTS [SEED]]: loses ranks of a PyTorch training on a simulated GPU, which the host
leaves behind and on which collectives hang: see support/lost_ranks.py and support/simulated_cuda.py. Before that, checks
which step is kept. Uses the Python of the environment "pytorch"."""
import contextlib
import hashlib
import json
import mmap
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from lost_ranks import Storm, fail_if_ordered  # noqa: E402

STEPS = 120


def all_reduce(add, gpu, tensor):
    """Puts a sum over all ranks on the stream. Like NCCL's, it never ends if a rank is lost."""
    def reduce():
        try:
            add(tensor)
        except Exception:  # noqa: BLE001
            threading.Event().wait()

    gpu.put(reduce)


def make_model(torch, gpu):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(56, 4))
    model[0].weight.data = model[0].weight.data.permute(2, 0, 1).contiguous().permute(1, 2, 0)  # dense, but not contiguous
    return gpu.move(model)


def train(folder):
    import torch
    import torch.distributed as dist

    import ddp_state
    import simulated_cuda as gpu

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    orders = mmap.mmap(os.open(folder / "orders", os.O_RDWR), 64)
    steps = mmap.mmap(os.open(folder / "steps", os.O_RDWR), 64 * 8)

    def at(place):
        if fail_if_ordered(orders, rank, place):
            time.sleep(1000)

    add = dist.all_reduce
    gpu.begin(ddp_state)
    model = make_model(torch, gpu)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: at("optimizer"))
    optimizer.register_step_post_hook(lambda *_: gpu.put(lambda: time.sleep(0.01)))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    torch.manual_seed(2 + rank)
    run = ddp_state.nothing_lost(model=model, optimizer=optimizer, scheduler=scheduler)
    with open(folder / "begins", "a") as file:
        file.write(f"{os.environ['TORCHELASTIC_RESTART_COUNT']} {rank} {run.step}\n")
    for step in run.steps(STEPS):
        gpu.put(lambda: time.sleep(0.02 + 0.02 * (rank == 0)))  # the GPU is slower than the host
        inputs, targets = gpu.to_gpu(torch.randn(8, 1, 16)), gpu.to_gpu(torch.randn(8, 4))
        at("forward")
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        at("backward")
        for parameter in model.parameters():
            all_reduce(add, gpu, parameter.grad)
        optimizer.step()
        scheduler.step()
        if step % 7 == 0:
            assert loss.item() > 0  # it waits for the GPU in the middle of the host's step
        at("finish")
        run.finish_step()
        gpu.put(lambda step=run.step: struct.pack_into("=q", steps, rank * 8, step))
    gpu.current_stream().synchronize()
    digest = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for tensor in [*model.state_dict().values(),
                   *(tensor for state in optimizer.state.values() for tensor in state.values())]:
        digest.update(bytes(ddp_state._view(tensor)))
    print("digest", rank, digest.hexdigest(), flush=True)


class Program:
    """A training of one rank on the simulated GPU, and what it has kept."""

    def __init__(self, memory=None):
        import torch

        import ddp_state
        import simulated_cuda as gpu

        self.torch, self.gpu = torch, gpu
        self.memory = os.memfd_create("states") if memory is None else memory
        os.ftruncate(self.memory, 1 << 42)
        os.pwrite(self.memory, struct.pack("=Q", 1 << 30), 0)  # room
        os.environ.update(WORLD_SIZE="1", DDP_STATE_MEMORY=json.dumps(
            {"fd": self.memory, "area": 0, "areas": 1, "rank": 0, "world": 1, "attempt": 0, "may_restart": 1}))
        self.model = make_model(torch, gpu)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.9)
        self.run = ddp_state.nothing_lost(model=self.model, optimizer=self.optimizer, scheduler=self.scheduler)

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.gpu.to_gpu(self.torch.randn(8, 1, 16))).square().mean().backward()
        self.optimizer.step()
        self.scheduler.step()
        self.run.finish_step()

    def steps_in_thread(self, count, done):
        def go_on():
            self.gpu.enter()
            for number in range(count):
                self.step()
                done.append(number)

        thread = threading.Thread(target=go_on)
        thread.start()
        return thread

    def finish(self):
        self.gpu.current_stream().synchronize()
        wait_until(lambda: self.entry(2 * self.run.step % 8 + 1, self.run.step), "the last note")

    def entry(self, place, step):
        found = self.run.memory.entry(0, place)
        return found if found and found.step == step else None

    def finals(self):
        return [entry.step for place in (1, 3, 5, 7) if (entry := self.run.memory.entry(0, place))]

    def parts(self):
        """Returns the bits of the state, and the optimizer's step count and learning rate."""
        tensors = [*self.model.state_dict().values(),
                   *(tensor for state in self.optimizer.state.values() for tensor in state.values())]
        with self.torch.utils._python_dispatch._disable_current_modes():
            bits = [(tensor.shape, tensor.stride(), tensor.clone().flatten().tolist()) for tensor in tensors]
        return bits, self.optimizer.param_groups[0]["lr"], self.scheduler.state_dict()

    def restored(self, step):
        """Returns the parts of a new program that begins with what is kept of the step."""
        whole = next(place for place in (10, 11) if self.entry(place, step))
        os.environ["DDP_STATE_MEMORY"] = json.dumps(
            {"fd": self.memory, "area": 0, "areas": 1, "rank": 0, "world": 1, "attempt": 1, "may_restart": 0, "step": step,
             "own": [0, 2 * step % 8 + 1], "whole": [0, whole], "transfers": []})
        other = Program.__new__(Program)
        other.torch, other.gpu = self.torch, self.gpu
        other.model = make_model(self.torch, self.gpu)
        other.optimizer = self.torch.optim.AdamW(other.model.parameters(), lr=1e-2)
        other.scheduler = self.torch.optim.lr_scheduler.StepLR(other.optimizer, 1, 0.9)
        import ddp_state
        run = ddp_state.nothing_lost(model=other.model, optimizer=other.optimizer, scheduler=other.scheduler)
        assert run.step == step
        self.gpu.current_stream().synchronize()
        return other.parts()


def wait_until(is_true, what):
    until = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < until, what
        time.sleep(0.001)


@contextlib.contextmanager
def stopped(gpu):
    """Stops the GPU here."""
    opened = threading.Event()
    gpu.put(opened.wait)
    try:
        yield opened
    finally:
        opened.set()


def the_step_that_the_gpu_has_finished_is_kept():
    program = Program()
    for _ in range(3):
        program.step()
    program.finish()
    expected = program.parts()
    with stopped(program.gpu):  # as a collective that waits for a lost rank
        program.step()
        program.step()
        assert program.run.step == 5 and max(program.finals()) == 3, program.finals()
        program.run._save()
        assert program.entry(10, 3) or program.entry(11, 3)
    found = program.restored(3)
    assert found == expected, (found, expected)


def the_host_is_at_most_two_steps_ahead():
    program = Program()
    with stopped(program.gpu):
        done = []
        thread = program.steps_in_thread(4, done)
        wait_until(lambda: program.run.step == 3, "the third step")
        time.sleep(0.2)
        assert done == [0, 1] and not program.finals(), (done, program.finals())
    thread.join()
    program.finish()
    assert sorted(program.finals()) == [1, 2, 3, 4], program.finals()


def a_copy_of_a_state_that_changes_meanwhile_does_not_count():
    program = Program()
    program.step()
    program.finish()
    pieces, tries = program.run.device.pieces, []

    def changed(tensors, step):
        tries.append(step.number)
        yield from [bytes(8)]
        if len(tries) == 1:
            opened.set()
            program.finish()
        yield from pieces(tensors, step)

    program.run.device.pieces = changed
    with stopped(program.gpu) as opened:
        program.step()
        program.run._save()
    assert tries == [1, 2] and program.run.memory.entry(0, 10).step == 2, tries
    assert not program.run.memory.entry(0, 11)


def nothing_is_copied_in_the_middle_of_a_change():
    program = Program()
    program.step()
    program.finish()
    opened = threading.Event()
    hook = program.optimizer.register_step_post_hook(lambda *_: program.gpu.put(opened.wait))
    program.step()
    hook.remove()
    device = program.run.device
    wait_until(lambda: device.steps[-2].change.query(), "the change")
    assert device.finished().number == 1 and not device.is_still(device.finished())
    thread = threading.Thread(target=program.run._save)
    thread.start()
    time.sleep(0.1)
    assert not program.run.memory.entry(0, 10)
    opened.set()
    thread.join()
    program.finish()
    assert program.run.memory.entry(0, 10).step == 2
    assert program.restored(2) == program.parts()


def a_step_that_changes_nothing_does_not_hide_the_next_change():
    program = Program()
    program.step()
    program.finish()
    device = program.run.device
    first = device.finished()
    program.run.finish_step()  # as with a gradient scaler that has found an infinite gradient
    program.finish()
    assert device.is_still(first) and device.finished().number == 2
    program.step()
    program.finish()
    assert not device.is_still(first) and device.is_still(device.finished())


def nothing_is_kept_if_no_optimizer_is_seen():
    program = Program()
    for step in range(20):  # as if graphs were replayed
        program.run.finish_step()
        program.gpu.current_stream().synchronize()
        program.run._save()
        assert program.run.memory.entry(0, 10) is None and (program.run.device.problem is None) == (step < 16), step


def work_of_the_gpu_after_its_group_was_destroyed_does_not_count():
    program = Program()
    program.step()
    program.finish()
    with stopped(program.gpu):
        program.step()
        try:
            try:
                raise RuntimeError
            finally:
                program.run._end_group(lambda: None)
        except RuntimeError:
            pass
    program.gpu.current_stream().synchronize()
    program.run._save()
    time.sleep(0.1)
    assert program.finals() == [1] and program.entry(10, 1) and not program.run.memory.entry(0, 11), program.finals()


def a_module_that_has_other_tensors_within_a_step_does_not_matter():
    program = Program()
    program.step()
    program.finish()
    parameters = program.model[4]._parameters
    weight, parameters["weight"] = parameters["weight"], program.torch.nn.Parameter(program.gpu.to_gpu(program.torch.ones(3)))
    program.run._save()
    parameters["weight"] = weight
    assert program.restored(1) == program.parts()


def an_image_is_copied_beside_the_next_step():
    program = Program()
    program.step()
    program.finish()
    program.run.image_share, program.run.first_step, program.run.image_every = 1, 1, 1
    copy, began, may_copy = program.run._copy, threading.Event(), threading.Event()

    def slow(step):
        began.set()
        may_copy.wait()
        copy(step)

    program.run._copy = slow
    program.step()  # and begins an image
    began.wait()
    threading.Timer(0.3, may_copy.set).start()
    begin = time.monotonic()
    program.gpu.current_stream().synchronize()
    assert time.monotonic() - begin < 0.2, "the GPU waits for an image"
    program.run.image_share = 0
    program.step()  # its optimizer waits
    assert time.monotonic() - begin > 0.25
    program.finish()
    assert program.run.memory.entry(0, 10).step == 2
    assert 0.1 < program.run.device.image_seconds() < 1, program.run.device.image_seconds()


def a_change_waits_for_an_image_that_has_not_begun():
    program = Program()
    program.step()
    program.finish()
    program.run.image_share, program.run.first_step, program.run.image_every = 1, 1, 1
    with stopped(program.gpu):
        program.step()  # and begins an image
        program.run.image_share = 0
        thread = program.steps_in_thread(1, [])
        time.sleep(0.3)
        assert program.run.device.steps[-1].change is None
    thread.join()
    program.finish()
    assert program.run.memory.entry(0, 10).step == 2


def the_scale_of_a_gradient_scaler_does_not_wait_for_the_gpu():
    program = Program()
    scaler = program.torch.amp.GradScaler("cpu", init_scale=64.0)
    scaler._lazy_init_scale_growth_tracker("cpu")
    expected = scaler.state_dict()
    scaler._scale, scaler._growth_tracker = program.gpu.to_gpu(scaler._scale), program.gpu.to_gpu(scaler._growth_tracker)
    program.run.other["scaler"] = scaler
    with stopped(program.gpu):
        program.step()
    program.finish()
    entry = program.entry(3, 1)
    parts, moved = pickle.loads(program.run.memory.read(entry, 0, bytearray(entry.bytes)))
    assert pickle.loads(parts["scaler"]) == expected and entry.kind == 2, (moved, expected)


def the_state_is_kept_before_cpp_ends_the_process():
    import ddp_state
    memory = os.memfd_create("states")
    done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--end", sys.argv[2], str(memory)], pass_fds=[memory],
                          capture_output=True, text=True)
    kept = ddp_state._Memory(memory, 0).entry(0, 10)
    assert done.returncode == -6 and kept and kept.step == 1, (done, kept)


def end(modules, memory):
    import ctypes
    begin_checks(modules)
    program = Program(memory)
    program.step()
    program.finish()
    library = ctypes.CDLL("libstdc++.so.6")
    threading.Thread(target=library._ZSt9terminatev).start()  # as PyTorch's thread does that watches NCCL
    time.sleep(100)


def begin_checks(modules):
    sys.path.insert(0, modules)
    import ddp_state
    import simulated_cuda as gpu

    gpu.begin(ddp_state)
    ddp_state._PINNED_BYTES = 100  # so that tensors need several blocks


def check(modules):
    begin_checks(modules)
    for call in (the_step_that_the_gpu_has_finished_is_kept, the_host_is_at_most_two_steps_ahead,
                 a_copy_of_a_state_that_changes_meanwhile_does_not_count, nothing_is_copied_in_the_middle_of_a_change,
                 a_step_that_changes_nothing_does_not_hide_the_next_change, nothing_is_kept_if_no_optimizer_is_seen,
                 work_of_the_gpu_after_its_group_was_destroyed_does_not_count,
                 a_module_that_has_other_tensors_within_a_step_does_not_matter,
                 an_image_is_copied_beside_the_next_step, a_change_waits_for_an_image_that_has_not_begun,
                 the_scale_of_a_gradient_scaler_does_not_wait_for_the_gpu,
                 the_state_is_kept_before_cpp_ends_the_process):
        call()
        print("ok", call.__name__, flush=True)
    os._exit(0)


def main():
    modules = pathlib.Path(sys.argv[1]).resolve().parent / "ddp_python" / "modules"
    subprocess.run([environments.need("pytorch"), "-W", "ignore", __file__, "--own", modules], check=True)
    faults = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    program = [environments.need("pytorch"), "-W", "ignore", __file__, "--train", "FOLDER"]
    Storm([sys.argv[1], "--preload=torch"], program, seed).blow(faults, layouts=(1,))


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(pathlib.Path(sys.argv[2]))
    elif sys.argv[1] == "--own":
        check(sys.argv[2])
    elif sys.argv[1] == "--end":
        end(sys.argv[2], int(sys.argv[3]))
    else:
        main()

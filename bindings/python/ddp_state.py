"""Keeps the state of a PyTorch program where the next attempt finds it, so that a lost rank costs no step.

    run = ddp_state.nothing_lost(model=model, optimizer=optimizer, scheduler=scheduler)
    for step in run.steps(3000):  # from the first step that is not finished
        ...

docs/how-to/lose-no-step.md shows how to use it. docs/reference/in-memory-checkpoints.md has the promises and their
limits. docs/development/protocol.md, section 11, describes the memory.
"""
import atexit
import collections
import ctypes
import fcntl
import functools
import hashlib
import io
import itertools
import json
import math
import os
import pickle
import queue
import random
import struct
import sys
import threading
import time
import zlib

import _random
import torch
import torch.distributed as dist

__all__ = ["NothingLost", "nothing_lost"]

_AREA, _REGION, _ENTRIES_AT, _ENTRY_BYTES = 1 << 42, 1 << 38, 256, 64
_RECENT, _PINNED, _WHOLE, _PLACES = range(0, 8), range(8, 10), range(10, 12), 12  # places of entries
_KEEPS_AT, _ANSWERED_AT, _RESTORED_AT, _IMAGE_TIME_AT = 8, 12, 16, 20
_REQUEST_AT, _CLAIMS = 1 << 62, 1 << 20  # a lock of this byte is the launcher's; the ranks that copy have those after it
_EARLY, _FINAL, _FINAL_MOVED, _STATE = 1, 2, 3, 4  # kinds of entries
_FIELDS = struct.Struct("=qQQiiiiI")
_CHUNK, _SMALL_BUFFER, _PATIENCE = 1 << 26, 1 << 16, 25
_PINNED_BYTES, _NOTES_AHEAD, _STEPS_AHEAD, _MOST_UNSEEN, _POLL = 1 << 25, 8, 2, 16, 2e-4

_Entry = collections.namedtuple("_Entry", "step bytes key kind attempt rank world check area place")


class _Memory:
    """The state memory of this node, which has an area for each local rank."""

    def __init__(self, fd, area):
        self.fd, self.area = fd, area

    def entry(self, area, place):
        """Returns the entry, or None if there is none."""
        raw = os.pread(self.fd, _FIELDS.size + 4, area * _AREA + _ENTRIES_AT + place * _ENTRY_BYTES)
        return self._checked(raw, area, place)

    def file(self, path):
        """Returns the entry of a file of an image. Its place is the descriptor of the file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise RuntimeError(f"nothing_lost: {error}. All nodes need the same --image-dir.") from error
        entry = self._checked(os.pread(fd, _FIELDS.size + 4, 0), -1, fd)
        if not entry or os.fstat(fd).st_size != _ENTRY_BYTES + entry.bytes:
            raise RuntimeError(f"nothing_lost: {path} is damaged. Remove its directory to go on from the one before.")
        return entry

    def _checked(self, raw, *where):
        is_valid = len(raw) == _FIELDS.size + 4 and any(raw) and struct.pack("=I", zlib.crc32(raw[:-4])) == raw[-4:]
        return _Entry(*_FIELDS.unpack(raw[:-4]), *where) if is_valid else None

    def write(self, area, place, parts, step, *more):
        """Writes the parts, then the entry. If this process is killed meanwhile, the place has no entry."""
        at = area * _AREA + _ENTRIES_AT + place * _ENTRY_BYTES
        os.pwrite(self.fd, bytes(_ENTRY_BYTES), at)
        begin = end = area * _AREA + (place + 1) * _REGION
        for part in parts:
            end += self._move(os.pwrite, part, end)
        fields = _FIELDS.pack(step, end - begin, *more, 0)
        os.pwrite(self.fd, fields + struct.pack("=I", zlib.crc32(fields)), at)

    def read(self, entry, at, into):
        is_file = entry.area < 0
        begin = _ENTRY_BYTES if is_file else entry.area * _AREA + (entry.place + 1) * _REGION
        self._move(lambda fd, rest, where: os.preadv(fd, [rest], where), into, begin + at, entry.place if is_file else self.fd)
        return into

    def _move(self, call, data, at, fd=None):
        rest = memoryview(data).cast("B")
        while rest:
            done = call(self.fd if fd is None else fd, rest[:_CHUNK], at)
            rest, at = rest[done:], at + done
        return memoryview(data).nbytes

    def image_time(self):
        """Returns how long the launcher needs to write an image to disk, in seconds."""
        return struct.unpack("=i", os.pread(self.fd, 4, self.area * _AREA + _IMAGE_TIME_AT))[0] / 1000

    def try_claim(self, number):
        """Returns whether this process is the one that copies for a key, or to a place, until it gives up the claim."""
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _REQUEST_AT + 1 + number)
        except OSError:
            return False
        return True

    def give_up(self, number):
        fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, _REQUEST_AT + 1 + number)

    def put(self, at, attempt, step=0):
        if at == _RESTORED_AT:
            os.pwrite(self.fd, struct.pack("=q", step), self.area * _AREA + at + 8)
        os.pwrite(self.fd, struct.pack("=i", attempt), self.area * _AREA + at)


def _is_on_gpu(value):
    return isinstance(value, torch.Tensor) and value.is_cuda


def _local(tensor):
    """Returns the part of a tensor that this rank has."""
    return (tensor.to_local() if hasattr(tensor, "placements") else tensor).detach()


def _is_dense(tensor):
    """Returns whether the elements fill a block of memory, in any order."""
    step = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda dimension: dimension[1]):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _bytes(tensor):
    """Returns a view of a dense tensor as a row of bytes."""
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _view(tensor):
    """Returns the memory of a tensor on the CPU, which is dense and not empty."""
    view = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    view.owner = tensor
    return view


def _raw(tensor):
    return _view(tensor.contiguous()).raw


class _Pickler(pickle.Pickler):
    """Replaces tensors by what is needed to make them again."""

    def __init__(self, file, names):
        super().__init__(file, protocol=4)
        self.names, self.tensors, self.bytes = names, [], 0

    def persistent_id(self, value):
        if not isinstance(value, torch.Tensor):
            return None
        layout, name = None, self.names.get(id(value))
        if hasattr(value, "placements"):  # a DTensor
            layout = value.placements, value.shape, value.stride()
        value = _local(value)
        if value.numel() > 0 and not _is_dense(value):
            value = _OnGpu.refuse(value) if _is_on_gpu(value) else value.contiguous()
        at, self.bytes = self.bytes, self.bytes + value.numel() * value.element_size()
        if value.numel() > 0:
            self.tensors.append(value)
        return at, value.shape, value.stride(), value.dtype, _is_on_gpu(value), layout, name


class _Unpickler(pickle.Unpickler):
    """Fills the tensors of modules in place, and makes the others."""

    def __init__(self, file, fill, mesh, live, gpu):
        super().__init__(file)
        self.fill, self.mesh, self.live, self.gpu = fill, mesh, live, gpu

    def persistent_load(self, description):
        at, shape, stride, dtype, is_on_gpu, layout, name = description
        live = self.live.get(name)
        local = None if live is None else _local(live)
        is_same = local is not None and (local.shape, local.stride(), local.dtype) == (shape, stride, dtype)
        is_here = is_same and not _is_on_gpu(local)
        tensor = local if is_here else torch.empty_strided(shape, stride, dtype=dtype)
        if tensor.numel() > 0:
            self.fill(at, _view(tensor))
        if is_same and not is_here:
            local.copy_(tensor)
        elif is_on_gpu:  # at once, because the host may not have room for all tensors
            tensor = tensor.to(self.gpu)
        if is_same or layout is None:
            return live if is_same else tensor
        from torch.distributed.tensor import DTensor
        return DTensor.from_local(tensor, self.mesh, layout[0], run_check=False, shape=layout[1], stride=layout[2])


def _tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(part)


class _RandomStates:
    """Reads and sets the states of the random generators of Python, PyTorch and NumPy.

    The functions of Python and NumPy make 624 objects, which takes longer than everything else that is done in a step. So
    the memory of the generators is read, if it has what the functions say.
    """
    WORDS, NORMAL = ctypes.c_char * 2500, ctypes.c_char * 16

    def __init__(self):
        self.gpu = None  # if the state is on one
        self.numpy, self.views = None, None  # the generator of numpy.random, and its memory
        self.python, self.words = random._inst, None
        if sys.implementation.name == "cpython" and _random.Random.__basicsize__ == object.__basicsize__ + 2504:
            words = self.WORDS.from_address(id(self.python) + object.__basicsize__)
            self.words = words if self._of_python(words, self.python.gauss_next) == random.getstate() else None

    def read(self):
        python = (self.words.raw, self.python.gauss_next) if self.words else random.getstate()
        numpy = sys.modules.get("numpy")
        if numpy:
            state = numpy.random.mtrand._rand
            generator = getattr(state, "_bit_generator", state)
            if self.numpy is not generator:  # the first one, or one that the program has set
                self.numpy, self.views = generator, self._find(state)
            numpy = tuple([view.raw for view in self.views]) if self.views else pickle.dumps(state.get_state())
        gpu = [_view(torch.cuda.get_rng_state(self.gpu)).raw] if self.gpu is not None else []
        return python, _view(torch.get_rng_state()).raw, numpy, *gpu

    def set(self, states):
        python, cpu, numpy, *gpu = states
        random.setstate(self._of_python(*python) if len(python) == 2 else python)
        torch.set_rng_state(torch.frombuffer(bytearray(cpu), dtype=torch.uint8))
        for state in gpu:
            torch.cuda.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8), self.gpu)
        if numpy:
            from numpy.random import set_state
            set_state(self._of_numpy(*numpy) if isinstance(numpy, tuple) else pickle.loads(numpy))

    def _of_python(self, words, normal):
        position, *key = struct.unpack("=625I", words)
        return 3, (*key, position), normal

    def _of_numpy(self, words, normal):
        *key, position = struct.unpack("=625I", words)
        return ("MT19937", key, position, *struct.unpack("=i4xd", normal))

    def _find(self, state):
        """Returns the memory of NumPy's generator, and of the normal number that it may hold back, or None if unknown."""
        try:
            sample = type(state)(1)
            sample.standard_normal()
            number = struct.pack("=d", sample.get_state()[4])
            at = ctypes.string_at(id(sample), type(sample).__basicsize__).index(number) - 8
            for one in (sample, sample, state):
                words, normal = one._bit_generator.ctypes.state_address, id(one) + at
                views = self.WORDS.from_address(words), self.NORMAL.from_address(normal)
                name, key, *more = one.get_state()
                if name != "MT19937" or self._of_numpy(*views) != (name, key.tolist(), *more):
                    return None
                sample.standard_normal()  # then it holds back none
            return views
        except Exception:  # another version of NumPy, or another kind of generator
            return None


class _TornError(Exception):
    """The state has changed while it was copied."""


class _Step:
    """A step that the program has finished."""

    def __init__(self, number, end=None, optimizers=None):
        self.number, self.end, self.optimizers = number, end, optimizers
        self.change = None  # what the GPU has reached when the next step changes the state


class _OnHost:
    """A state in host memory is that of the step that the program has finished. In the middle of one, the gate is held."""
    holds_gate, has_seen_change, problem = True, True, None

    def __init__(self, run):
        self.run, self.seconds = run, 0.0

    def wait_for_image(self):
        pass

    def begin_change(self):
        pass

    def note(self, tensors, _, write):
        write({at: _raw(tensor) for at, tensor in tensors.items()})

    def finished(self):
        return _Step(self.run.step)

    def is_still(self, _):
        return True

    def states(self, _):
        return {name: part.state_dict() for name, part in self.run.large.items()}

    def pieces(self, tensors, _):
        return map(_view, tensors)

    def make_image(self, copy):
        begin = time.monotonic()
        with self.run.gate:
            copy(self.finished())
        self.seconds = time.monotonic() - begin

    def image_seconds(self):
        return self.seconds

    def flush(self):
        pass

    def begin_thread(self):
        pass

    def is_capturing(self):
        return False


class _OptimizerStates:
    """Notes what optimizers have after a step, without a copy of what is on the GPU.

    Step counts and learning rates in host memory are those of the host's step, which the GPU may not have reached.
    """

    def __init__(self, optimizers):
        self.optimizers = optimizers
        self.known = {name: (-1, [], []) for name in optimizers}

    def note(self):
        return {name: self._note(name, part) for name, part in self.optimizers.items()}

    def _note(self, name, part):
        states = [(parameter, dict(values)) for parameter, values in part.state.items()]
        groups = [{key: value.clone() if isinstance(value, torch.Tensor) and not _is_on_gpu(value) else value
                   for key, value in group.items()} for group in part.param_groups]
        size = sum(len(values) for _, values in states)
        known, tensors, views = self.known[name]
        if known != size or any(states[at][1].get(key) is not tensor for at, key, tensor in tensors):
            tensors = [(at, key, tensor) for at, (_, values) in enumerate(states) for key, tensor in values.items()
                       if self._is_in_host_memory(tensor)]
            views = [_view(tensor) for _, _, tensor in tensors]
            self.known[name] = size, tensors, views
        return states, groups, tensors, b"".join(views)

    def _is_in_host_memory(self, value):
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            return False
        if not _is_dense(_local(value)):
            _OnGpu.refuse(value)
        if not _is_on_gpu(value) and value.numel() * value.element_size() > _SMALL_BUFFER:
            raise ValueError("an optimizer of parameters on a GPU has large tensors in host memory")
        return not _is_on_gpu(value)

    def state_dict(self, states, groups, tensors, content):
        """Returns what state_dict() of the optimizer returned after the step."""
        at = 0
        for number, key, tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            copy = torch.frombuffer(bytearray(content[at:at + size]), dtype=tensor.dtype)
            states[number][1][key], at = copy.as_strided(tensor.shape, tensor.stride()), at + size
        numbers = {}
        for group in groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
        return {"state": {numbers.get(id(parameter), parameter): values for parameter, values in states},
                "param_groups": [{**group, "params": [numbers[id(parameter)] for parameter in group["params"]]}
                                 for group in groups]}


class _OnGpu:
    """A state on a GPU is that of the step whose end the GPU has reached. The program may have gone on.

    Events in the program's stream show it. While a collective waits for a lost rank, the GPU may refuse everything but
    copies and events, so that all else is made before: see docs/development/decisions/0079-states-in-gpu-memory.md.
    """
    holds_gate = False

    def __init__(self, run, device):
        self.run, self.device, self.problem = run, device, None
        self.steps = collections.deque(maxlen=_STEPS_AHEAD + 2)
        self.optimizers = _OptimizerStates(run.optimizers)
        self.has_seen_change, self.unseen = False, 0  # steps in a row without a change that was seen
        self.module_states, self.addresses = {}, []  # what modules have, and their parameters with the addresses
        self.image, self.begins = None, None  # the thread that makes an image, and two events around the wait for it
        self.side, self.blocks = None, []  # the stream for copies, and the memory in which they arrive
        self.row, self.places, self.tensors, self.kinds, self.free = None, [], [], [], None  # of collected tensors
        self.notes, self.ahead = queue.SimpleQueue(), threading.Semaphore(_STEPS_AHEAD)
        run.random.gpu = device

    @staticmethod
    def refuse(tensor):
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} on a GPU has gaps in memory")

    def begin(self, tensors):
        """Makes what is needed later. `tensors` are those that will be noted."""
        for part in self.run.modules:
            for tensor in (*part.parameters(), *part.buffers()):
                if tensor.numel() > 0 and _is_on_gpu(tensor) and not _is_dense(_local(tensor)):
                    self.refuse(tensor)
        for part in self.run.optimizers.values():
            if type(part).state_dict is not torch.optim.Optimizer.state_dict:
                raise ValueError(f"{type(part).__name__} has a state_dict() of its own")
        # Few programs have streams with this priority, which share hardware queues.
        self.side = torch.cuda.Stream(self.device, priority=-1)
        self.blocks = [torch.empty(_PINNED_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self._lay_out([tensor for tensor in tensors if _is_on_gpu(tensor)])
        self._note_tensors()
        self._end_step(self.run.step, self._mark())
        threading.Thread(target=self._write_notes, name="nothing_lost notes", daemon=True).start()

    def _mark(self, **options):
        event = torch.cuda.Event(**options)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def _give_up(self, why):
        self.problem = why
        print(f"nothing_lost: no state is kept: {why}", file=sys.stderr)

    def begin_thread(self):
        """Makes sure that looks of this thread at events do not spoil a CUDA graph that another thread captures."""
        try:
            ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(2)))
        except (OSError, AttributeError):
            pass

    # --- What the program does

    def is_capturing(self):
        return torch.cuda.is_current_stream_capturing()

    def wait_for_image(self):
        if self.image:
            ready = self._mark(enable_timing=True)
            self.image.join()
            self.image, self.begins = None, [ready]

    def begin_change(self):
        if self.is_capturing():
            self._give_up("the optimizer's step is in a CUDA graph")
        elif not self.problem:
            self.has_seen_change, self.unseen = True, 0
            waited = self.begins is not None and len(self.begins) == 1
            self.steps[-1].change = self._mark(enable_timing=waited)
            if waited:
                self.begins.append(self.steps[-1].change)

    def note(self, tensors, step, write):
        """Has a note written when the GPU has done what it was given. `step` is the one that it ends, or None."""
        if self.problem:
            return
        on_gpu = {at: tensor for at, tensor in tensors.items() if _is_on_gpu(tensor)}
        contents = {at: _raw(tensor) for at, tensor in tensors.items() if at not in on_gpu}
        if step is None and not on_gpu:
            return write(contents)
        landing = (list(on_gpu), *self._collect(list(on_gpu.values()))) if on_gpu else None
        event = self._mark(blocking=True)
        if step is not None:
            try:
                self._end_step(step, event)
            except ValueError as error:
                return self._give_up(error)
            if self.run.first_step == step:
                self._note_tensors()
            self.unseen += 1
            if self.unseen > _MOST_UNSEEN:
                return self._give_up("no optimizer's step is seen; is it in a CUDA graph?")
        self.notes.put((event, landing, contents, write, step))
        if step is not None:
            self.ahead.acquire()

    def _note_tensors(self):
        """Looks between two steps which tensors the modules have. Within a step, others may stand for parts of them."""
        self.module_states = {name: part.state_dict() for name, part in self.run.large.items()
                              if isinstance(part, torch.nn.Module)}
        self.addresses = [(parameter, _local(parameter).data_ptr())
                          for part in self.run.modules for parameter in part.parameters()]

    def _end_step(self, number, event):
        self.steps.append(_Step(number, event, self.optimizers.note()))

    def _lay_out(self, tensors):
        """Makes room for copies of the tensors: a row of them on the GPU, and blocks of host memory."""
        sizes = [-(-tensor.numel() * tensor.element_size() // 16) * 16 for tensor in tensors]
        self.row = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
        self.places, at = [], 0
        for tensor, size in zip(tensors, sizes):
            self.places.append((at, tensor.numel() * tensor.element_size(), tensor.shape, tensor.dtype))
            at += size
        self.free = queue.SimpleQueue()
        for _ in range(_NOTES_AHEAD if tensors else 0):
            self.free.put(torch.empty(self.row.numel(), dtype=torch.uint8, pin_memory=True))

    def _gather(self, tensors):
        """Takes note of which tensors are collected, by their type."""
        if [place[2:] for place in self.places] != [(tensor.shape, tensor.dtype) for tensor in tensors]:
            self._lay_out(tensors)
        kinds = collections.defaultdict(lambda: ([], []))
        for tensor, (at, size, shape, dtype) in zip(tensors, self.places):
            kinds[dtype][0].append(self.row[at:at + size].view(dtype).view(shape))
            kinds[dtype][1].append(tensor)
        self.tensors, self.kinds = tensors, list(kinds.values())

    def _collect(self, tensors):
        """Copies small tensors to host memory, in the order of the stream. Returns where they will be."""
        if len(tensors) != len(self.tensors) or any(one is not other for one, other in zip(tensors, self.tensors)):
            self._gather(tensors)
        block = self.free.get()
        with torch.no_grad():
            for views, of_kind in self.kinds:
                torch._foreach_copy_(views, of_kind)
            block.copy_(self.row, non_blocking=True)
        return block, self.places, self.free

    def _write_notes(self):
        self.begin_thread()
        while True:
            event, landing, contents, write, step = self.notes.get()
            try:
                event.synchronize()
                if not self.problem:
                    if landing:
                        names, block, places, _ = landing
                        content = _view(block).raw
                        contents.update({name: content[at:at + size] for name, (at, size, *_) in zip(names, places)})
                    write(contents)
            except Exception as error:
                self._give_up(error)
            if landing:
                landing[3].put(landing[1])
            if step is not None:
                self.ahead.release()

    def flush(self):
        """Waits a moment until the notes are written, unless the GPU waits for another rank."""
        until = time.monotonic() + 1
        for _ in range(_STEPS_AHEAD):
            self.ahead.acquire(timeout=max(until - time.monotonic(), 0))

    # --- Copies

    def finished(self):
        """Returns the newest step that the GPU has finished."""
        return next(step for step in reversed(list(self.steps)) if step.end.query())

    def is_still(self, step):
        """Returns whether the GPU has not begun to change the state since. Not every step changes it."""
        later = (other.change for other in list(self.steps) if other.number >= step.number)
        return not any(change and change.query() for change in later)

    def states(self, step):
        if any(_local(parameter).data_ptr() != address for parameter, address in self.addresses):
            raise ValueError("the parameters are no longer where they were in the first step")
        return {name: self.optimizers.state_dict(*step.optimizers[name]) if name in step.optimizers
                else self.module_states[name] for name in self.run.large}

    def pieces(self, tensors, step):
        """Yields the memory of the tensors in host memory. While one piece is written, the next one is copied."""
        under_way = collections.deque()
        for block, parts in zip(itertools.cycle(self.blocks), self._fill(tensors)):
            if len(under_way) == len(self.blocks):
                yield self._wait_for(*under_way.popleft())
            under_way.append(self._start(block, parts))
        while under_way:
            yield self._wait_for(*under_way.popleft())
        if self.problem or not self.is_still(step):
            raise _TornError

    def _fill(self, tensors):
        """Yields parts of tensors that have room in a block."""
        parts, room = [], _PINNED_BYTES
        for tensor in tensors:
            rest = _bytes(tensor)
            while rest.numel() > 0:
                parts.append(rest[:room])
                rest, room = rest[room:], room - parts[-1].numel()
                if room == 0:
                    yield parts
                    parts, room = [], _PINNED_BYTES
        if parts:
            yield parts

    def _start(self, block, parts):
        size, event = 0, torch.cuda.Event()
        with torch.cuda.stream(self.side):
            for part in parts:
                block[size:size + part.numel()].copy_(part, non_blocking=True)
                size += part.numel()
            event.record(self.side)
        return block, size, event

    def _wait_for(self, block, size, event):
        until = time.monotonic() + _PATIENCE
        while not event.query():
            if time.monotonic() > until:
                raise RuntimeError("the GPU does not copy")
            time.sleep(_POLL)
        return memoryview(_view(block)).cast("B")[:size]

    def make_image(self, copy):
        self._note_tensors()
        self.image = threading.Thread(target=self._make_image, args=(self.steps[-1], copy), daemon=True)
        self.image.start()

    def _make_image(self, step, copy):
        self.begin_thread()
        try:
            step.end.synchronize()
            with self.run.gate:
                copy(step)
        except Exception as error:
            self._give_up(error)

    def image_seconds(self):
        """Returns for how long the GPU had nothing to do because of the last image."""
        begins = self.begins or ()
        return begins[0].elapsed_time(begins[1]) / 1e3 if len(begins) == 2 and begins[1].query() else 0.0


class NothingLost:
    """Represents the training of a program. `step` is the number of steps that are finished."""

    def __init__(self, parts):
        self.step, self.memory = 0, None
        self.random, self.begins_with = _RandomStates(), None
        self.large = {name: part for name, part in parts.items()
                      if isinstance(part, (torch.nn.Module, torch.optim.Optimizer))}
        self.other = {name: part for name, part in parts.items() if name not in self.large}
        self.modules = [part for part in self.large.values() if isinstance(part, torch.nn.Module)]
        self.optimizers = {name: part for name, part in self.large.items() if isinstance(part, torch.optim.Optimizer)}
        self.buffers = [(module._buffers, name) for part in self.modules for module in part.modules()
                        for name, buffer in module._buffers.items()
                        if buffer is not None and 0 < buffer.numel() * buffer.element_size() <= _SMALL_BUFFER]
        self.gate = threading.Lock()  # held while the state changes in host memory, and while it is copied
        self.is_changing = False  # the first optimizer has begun its step
        self.is_asked = False  # by the launcher, which ends this process next
        self.early = (0, {})
        self.first_step, self.began = None, 0.0  # the first step that is finished in this attempt, and when that was
        self.image_share, self.image_every, self.has_room = 0, 16, True
        self.device = _OnHost(self)
        env = os.environ
        if len(self.modules) == len(self.large):  # it would not be known when the parameters change
            raise ValueError("nothing_lost: pass the optimizers of the modules, too")
        if "DDP_STATE_MEMORY" not in env:
            if env.get("RANK", "0") == "0":
                print("nothing_lost: no state is kept: that needs ddplaunch with --max-restarts or --image-dir", file=sys.stderr)
            return
        if not hasattr(torch.optim.Optimizer, "register_step_pre_hook"):
            print("nothing_lost: no state is kept: that needs PyTorch 2.0", file=sys.stderr)
            return
        parameters = [parameter for module in self.modules for parameter in module.parameters()]
        gpus = {parameter.device for parameter in parameters if _is_on_gpu(parameter)}
        if gpus and (why := self._obstacle(parameters, gpus)):
            print(f"nothing_lost: no state is kept: {why}", file=sys.stderr)
            return
        if not dist.is_initialized() and env["WORLD_SIZE"] != "1":
            raise RuntimeError("nothing_lost: call torch.distributed.init_process_group() before")
        plan = json.loads(env["DDP_STATE_MEMORY"])
        self.rank, self.world, self.attempt, self.areas = (plan[name] for name in ("rank", "world", "attempt", "areas"))
        self.image_share = plan.get("image_cost", 0) / 1e6
        try:
            has_memory = os.fstat(plan["fd"]).st_size == self.areas * _AREA
        except OSError:  # there is none, or the program, or one around it, has closed the descriptor
            has_memory = False
        if not has_memory:
            if "step" in plan:
                raise RuntimeError("nothing_lost: the other ranks go on from a kept state, which this one cannot read")
            why = f"descriptor {plan['fd']} is closed" if plan["fd"] >= 0 else "the launcher has no memory for it"
            print(f"nothing_lost: rank {self.rank} cannot keep its state: {why}", file=sys.stderr)
            return
        self.memory = _Memory(plan["fd"], plan["area"])
        self.key = self._key()
        if gpus:
            self.device = _OnGpu(self, gpus.pop())
        if "step" in plan:
            self._restore(plan)
        if plan["may_restart"]:
            self._keep()

    def steps(self, total):
        """Yields the numbers of the steps that are left, from 0. A step is finished when the next one is asked for."""
        if self.begins_with:  # what the program has made since may have used them
            self.random.set(self.begins_with)
        self.begins_with = None
        while self.step < total:
            step = self.step
            yield step
            if self.step == step:
                self.finish_step()

    def finish_step(self):
        """Says that a step is finished: the optimizer, the scheduler and whatever changes once per step have done so.

        A program that communicates after the optimizer's step calls it before that. Otherwise `steps()` calls it.
        """
        self.step += 1
        if self.first_step is None:
            self.first_step, self.began = self.step, time.monotonic()
        if self.memory:
            self._note(_FINAL, self.step)
        if self.is_changing:
            self.is_changing = False
            if self.device.holds_gate:
                self.gate.release()
        if self.image_share:
            self._make_image()

    def _obstacle(self, parameters, gpus):
        """Returns why a state on a GPU cannot be kept, or None."""
        if len(gpus) > 1 or not all(map(_is_on_gpu, parameters)):
            return "the parameters are not on one GPU"
        if not hasattr(torch, "_foreach_copy_"):
            return "that of parameters on a GPU needs PyTorch 2.1"
        # Else the GPU goes on after a lost rank, with what its broken collectives leave.
        name = "NCCL_ASYNC_ERROR_HANDLING"
        if os.environ.get("TORCH_" + name, os.environ.get(name)) in ("1", "2"):
            return f"TORCH_{name} must be 3 if parameters are on a GPU"
        return None

    # --- What a rank has of its own is written in each step.

    def _key(self):
        """Returns a number that ranks have in common if they have the same parameters."""
        key = hashlib.blake2b(digest_size=8)
        for module in self.modules:
            for name, parameter in module.named_parameters():
                local = _local(parameter)
                key.update(repr((name, local.shape, local.dtype)).encode())
                if local.numel() > 0:
                    key.update(_view(local.flatten()[:4].cpu()))
        return int.from_bytes(key.digest(), "little")

    def _note(self, kind, step):
        if self.device.is_capturing():
            return
        scalers = {name: part for name, part in self.other.items() if _is_on_gpu(getattr(part, "_scale", None))}
        own = {name: pickle.dumps(part.state_dict()) for name, part in self.other.items() if name not in scalers}
        own["random"] = self.random.read()
        tensors = self._small_tensors()
        for name, scaler in scalers.items():  # its state_dict() would wait for the GPU
            own[name] = {"growth_factor": scaler.get_growth_factor(), "backoff_factor": scaler.get_backoff_factor(),
                         "growth_interval": scaler.get_growth_interval()}
            tensors[name, "scale"], tensors[name, "_growth_tracker"] = scaler._scale, scaler._growth_tracker
        early, is_image = self.early, kind != _EARLY and self._is_image(step)
        if kind == _EARLY:
            self.early = step, own
        self.device.note(tensors, None if kind == _EARLY else step,
                         lambda contents: self._write_note(kind, step, own, early, is_image, contents))

    def _small_tensors(self):
        return {at: of[name] for at, (of, name) in enumerate(self.buffers) if name in of and of[name] is not None}

    def _write_note(self, kind, step, own, early, is_image, contents):
        own["buffers"] = {at: content for at, content in contents.items() if isinstance(at, int)}
        for name, state in own.items():
            if name not in ("random", "buffers") and isinstance(state, dict):
                state["scale"], = struct.unpack("=f", contents[name, "scale"])
                state["_growth_tracker"], = struct.unpack("=i", contents[name, "_growth_tracker"])
                own[name] = pickle.dumps(state)
        moved = []
        if kind != _EARLY:
            moved = [name for name in own if early[0] != step or own[name] != early[1].get(name)]
            kind = _FINAL_MOVED if "random" in moved or "buffers" in moved else _FINAL
        places = [(2 * step + (kind != _EARLY)) % len(_RECENT)]
        if is_image:
            places.append(self._by_age(_PINNED)[0])
        data = pickle.dumps((own, moved))
        for place in places:
            self.memory.write(self.memory.area, place, [data], step, self.key, kind, self.attempt, self.rank, self.world)

    # --- The whole state is copied when a rank is lost, and sometimes for the case that all are.

    def _is_image(self, step):
        return self.image_share > 0 and step > self.first_step and (step - self.first_step) % self.image_every == 0

    def _make_image(self):
        """Copies the whole state after every N steps.

        N is the least power of two with which copies take their share, and the disk can follow.
        """
        steps = self.step - self.first_step
        if self._is_image(self.step) and self.memory and self.device.has_seen_change and not self.device.problem:
            self.device.make_image(self._try_copy)
        is_after_image = steps % 16 == 0 and self._is_image(self.step)
        if steps >= 32 and (is_after_image or steps & (steps - 1) == 0):
            copying = self.device.image_seconds() if self.has_room else 0.0
            disk = self.memory.image_time() if self.memory else 0.0
            longest = torch.tensor([copying, (time.monotonic() - self.began) / steps, disk], dtype=torch.float64,
                                   device=self._wire())
            if dist.is_initialized():  # all ranks need the same N
                dist.all_reduce(longest, dist.ReduceOp.MAX)
            copy, step, disk = longest.tolist()
            if needed := max(copy / (self.image_share * step), disk / step):
                self.image_every = 1 << max(math.ceil(math.log2(needed)), 0)

    def _keep(self):
        if not self.device.holds_gate:
            try:
                self.device.begin(self._small_tensors().values())
            except ValueError as error:
                print(f"nothing_lost: no state is kept: {error}", file=sys.stderr)
                self.memory = None
                return
            self._save_before_termination()
            self._save_before_groups_end()
        for part in self.large.values():
            if isinstance(part, torch.nn.Module):
                part.register_forward_hook(self._after_forward)
            else:
                part.register_step_pre_hook(lambda *_: self._begin_change())
        usual = sys.excepthook

        def on_exception(*exception):
            try:
                if not self._holds_gate():
                    self._save(0 if self.is_changing else _PATIENCE)  # this step does not end
            except Exception as error:  # the program's own exception must be seen in any case
                print(f"nothing_lost: the state is not kept: {error}", file=sys.stderr)
            if self.is_asked:  # this rank lost another one, so that its exception says nothing new
                time.sleep(1)
            usual(*exception)

        sys.excepthook = on_exception
        atexit.register(self.device.flush)
        atexit.register(lambda: self._holds_gate() or self.gate.acquire(timeout=_PATIENCE))
        threading.Thread(target=self._answer, name="nothing_lost", daemon=True).start()
        self.memory.put(_KEEPS_AT, self.attempt + 1)

    def _save_before_termination(self):
        """Keeps the state before C++ ends the process. PyTorch does so in a thread of its own if NCCL has lost a rank."""
        @ctypes.CFUNCTYPE(None)
        def save():
            try:
                self.device.begin_thread()
                self._save()
            finally:
                usual()

        try:
            set_handler = ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE
        except (OSError, AttributeError):  # another library of C++
            return
        set_handler.restype = ctypes.CFUNCTYPE(None)
        self.on_termination = save, set_handler  # they must live as long as the process
        usual = set_handler(save)

    def _save_before_groups_end(self):
        """Keeps the state before a process group is destroyed, as in a `finally`. Collectives that wait for other ranks
        end then, and the GPU goes on with what they leave."""
        for name in ("destroy_process_group", "_shutdown_backend", "_abort_process_group"):
            call = getattr(dist.distributed_c10d, name, None)
            if call:
                wrapper = functools.wraps(call)(functools.partial(self._end_group, call))
                for module in (dist, dist.distributed_c10d):
                    if getattr(module, name, None) is call:
                        setattr(module, name, wrapper)

    def _end_group(self, call, *arguments, **options):
        if not self.device.problem:
            if sys.exc_info()[0]:
                self._save(0 if self.is_changing else _PATIENCE)
            with self.gate:
                self.device.problem = "a process group was destroyed"
        return call(*arguments, **options)

    def _after_forward(self, module, _, output):
        """Notes what this rank has before other ranks can finish the step: when its backward pass begins."""
        if module.training:
            outputs = [tensor for tensor in _tensors_in(output) if tensor.requires_grad]
            if outputs:
                outputs[0].register_hook(lambda _: self._note(_EARLY, self.step + 1))
            else:
                self._note(_EARLY, self.step + 1)

    def _begin_change(self):
        if not self.is_changing:
            self.device.wait_for_image()
            self.gate.acquire()
            self.is_changing = True
            self.device.begin_change()
            if not self.device.holds_gate:
                self.gate.release()

    def _holds_gate(self):
        return self.is_changing and self.device.holds_gate

    def _answer(self):
        """Waits until the launcher gives up its lock, which means that a rank is lost."""
        fcntl.lockf(self.memory.fd, fcntl.LOCK_SH, 1, _REQUEST_AT)
        self.is_asked = True
        try:
            self.device.begin_thread()
            self._save()
        except Exception as error:
            print(f"nothing_lost: the state is not kept: {error}", file=sys.stderr)
        finally:
            self.memory.put(_ANSWERED_AT, self.attempt + 1)

    def _save(self, patience=_PATIENCE):
        """Copies the state of the last finished step, unless another rank of this node does."""
        until = time.monotonic() + patience
        while self.device.has_seen_change and not self.device.problem:
            if self.gate.acquire(timeout=0.02):
                try:
                    if self._save_until(until):
                        return
                finally:
                    self.gate.release()
            elif self._is_kept(self.device.finished()):
                return
            if time.monotonic() > until:
                return
            time.sleep(0.002)

    def _save_until(self, until):
        """Returns whether the state is kept. It is not if it is that of no step, or if another rank needs too long."""
        while self.device.is_still(step := self.device.finished()):
            if self._is_kept(step) or self._try_copy(step):
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return self._is_kept(step)

    def _try_copy(self, step):
        """Copies the state unless it is kept. Returns False if another rank does, or if it has changed meanwhile."""
        claim = self.key % _CLAIMS
        if not self.memory.try_claim(claim):
            return False
        try:
            if not self._is_kept(step):
                self._copy(step)
        except _TornError:
            return False
        finally:
            self.memory.give_up(claim)
        return True

    def _whole_states(self):
        """Returns the entries of whole states with this rank's key, the oldest first."""
        entries = (self.memory.entry(area, place) for area in range(self.areas) for place in _WHOLE)
        return sorted((entry for entry in entries if entry and entry.key == self.key),
                      key=lambda entry: (entry.attempt, entry.step))

    def _is_kept(self, step):
        return step.number == 0 or any((entry.attempt, entry.step) >= (self.attempt, step.number)
                                       for entry in self._whole_states())

    def _by_age(self, places):
        """Returns the places of this rank's area, those without an entry first, and then the oldest."""
        entries = {place: self.memory.entry(self.memory.area, place) for place in places}
        return sorted(places, key=lambda place: (entries[place].attempt, entries[place].step) if entries[place] else (-1, -1))

    def _copy(self, step):
        """Copies the state to one of the two places of its key, in whichever areas they are."""
        known = self._whole_states()
        places = [(entry.area, entry.place) for entry in known]
        if len(known) >= len(_WHOLE):
            places = places[:-1]
        else:
            own = [(self.memory.area, place) for place in self._by_age(_WHOLE)]
            places = [place for place in own if place not in places]
        for area, place in places:
            claim = _CLAIMS + area * _PLACES + place
            if self.memory.try_claim(claim):
                try:
                    return self._copy_to(area, place, sum(entry.bytes for entry in known), step)
                finally:
                    self.memory.give_up(claim)

    def _copy_to(self, area, place, allocated, step):
        skeleton = io.BytesIO()
        state = self.device.states(step)
        pickler = _Pickler(skeleton, {id(tensor): name for name, tensor in self._live(state).items()})
        pickler.dump(state)
        room = struct.unpack("=Q", os.pread(self.memory.fd, 8, self.memory.area * _AREA))[0]
        # The memory of both places is needed, sooner or later.
        had_room, self.has_room = self.has_room, len(_WHOLE) * pickler.bytes <= room + allocated
        if had_room and not self.has_room:
            print(f"nothing_lost: the state of {pickler.bytes >> 20} MiB is not kept: the node has {room >> 20} MiB left",
                  file=sys.stderr)
        if not self.has_room:
            return
        head = struct.pack("=Q", len(skeleton.getvalue())) + skeleton.getvalue()
        parts = itertools.chain([head], self.device.pieces(pickler.tensors, step))
        self.memory.write(area, place, parts, step.number, self.key, _STATE, self.attempt, self.rank, self.world)

    # --- An attempt begins with what was kept.

    def _restore(self, plan):
        if "image" in plan:
            own, shared, whole = self._of_image(plan["image"])
        else:
            self._transfer(plan["transfers"])
            own, shared, whole = (self.memory.entry(*plan[name]) if name in plan else None
                                  for name in ("own", "shared", "whole"))
        self._load(whole)
        of_other, moved = self._own_parts(shared) if shared else ({}, [])
        if own:
            parts, _ = self._own_parts(own)
            parts.update({name: of_other[name] for name in moved})  # it was lost before it had finished the step
            self._load_own(parts)
        elif shared:  # this rank is new
            self._load_other(of_other)
        for entry in (own, shared, whole):
            if entry and entry.area < 0:
                os.close(entry.place)
        self.step, self.key = whole.step, whole.key
        self.memory.put(_RESTORED_AT, self.attempt + 1, self.step)

    def _own_parts(self, entry):
        return pickle.loads(self.memory.read(entry, 0, bytearray(entry.bytes)))

    def _of_image(self, image):
        def file_of(rank):
            return self.memory.file(f"{image}/rank-{rank}")

        own, shared = file_of(0), None
        if own.world == self.world:
            own = file_of(self.rank)
        whole = self.memory.file(f"{image}/whole-{own.key:x}")
        if own.world != self.world or own.kind == _EARLY:
            shared = next(entry for entry in map(file_of, range(own.world)) if entry.kind != _EARLY)
        return own if own.world == self.world else None, shared, whole

    def _load(self, entry):
        size = struct.unpack("=Q", self.memory.read(entry, 0, bytearray(8)))[0]
        skeleton = io.BytesIO(self.memory.read(entry, 8, bytearray(size)))
        meshes = (parameter.device_mesh for module in self.modules for parameter in module.parameters()
                  if hasattr(parameter, "device_mesh"))
        fill = lambda at, view: self.memory.read(entry, 8 + size + at, view)
        live = self._live({name: part.state_dict() for name, part in self.large.items()})
        state = _Unpickler(skeleton, fill, next(meshes, None), live, self.random.gpu).load()
        for name, part in self.large.items():
            if state[name].keys() != {key for of, key in live if of == name} or any(
                    value is not live[name, key] for key, value in state[name].items()):
                part.load_state_dict(state[name])
            if name in self.optimizers:
                self._restore_types(part, state[name])

    def _restore_types(self, optimizer, state):
        """Undoes that load_state_dict() gives what belongs to a parameter the parameter's type."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for number, values in state["state"].items():
            found = optimizer.state[parameters[number]] if isinstance(number, int) else {}
            for key, value in values.items() if isinstance(values, dict) else ():
                now = found.get(key)
                if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor) and now.dtype != value.dtype:
                    found[key] = value.to(now.device)

    def _live(self, state):
        """Returns the tensors of modules, which the program uses itself, by their names."""
        return {(name, key): value for name, part in self.large.items() if isinstance(part, torch.nn.Module)
                for key, value in state[name].items() if isinstance(value, torch.Tensor)}

    def _load_other(self, parts):
        for name, part in self.other.items():
            part.load_state_dict(pickle.loads(parts[name]))

    def _load_own(self, parts):
        self._load_other(parts)
        for at, content in parts["buffers"].items():
            of, name = self.buffers[at]
            of[name].copy_(torch.frombuffer(bytearray(content), dtype=of[name].dtype).view(of[name].shape))
        self.begins_with = parts["random"]
        self.random.set(self.begins_with)

    def _transfer(self, transfers):
        """Brings what only other nodes have to this node."""
        for source, target, *places in transfers:
            if self.rank == source:
                entry = self.memory.entry(*places[:2])
                self._send(target, _FIELDS.pack(*entry[:8]))
                for at in range(0, entry.bytes, _CHUNK):
                    self._send(target, self.memory.read(entry, at, bytearray(min(_CHUNK, entry.bytes - at))))
            elif self.rank == target:
                step, size, *more, _ = _FIELDS.unpack(self._receive(source, _FIELDS.size))
                self.memory.write(*places[2:], (self._receive(source, min(_CHUNK, size - at))
                                                for at in range(0, size, _CHUNK)), step, *more)
        if transfers:
            dist.barrier()  # the ranks of a node read what one of them has received

    def _wire(self):
        """Returns where tensors must be so that the process group can send them."""
        is_nccl = dist.is_initialized() and dist.get_backend() == "nccl"
        return torch.device("cuda", torch.cuda.current_device()) if is_nccl else torch.device("cpu")

    def _send(self, rank, data):
        dist.send(torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self._wire()), rank)

    def _receive(self, rank, size):
        tensor = torch.empty(size, dtype=torch.uint8, device=self._wire())
        dist.recv(tensor, rank)
        return _view(tensor.cpu())


def nothing_lost(**parts):
    """Returns the training, with the kept state loaded into the parts, if there is one: see NothingLost.

    The parts are modules, optimizers, and other objects with state_dict() and load_state_dict(): a scheduler, a gradient
    scaler, a data loader or sampler. All ranks call it, with the same names, after init_process_group() and
    DistributedDataParallel(). The random states of Python, NumPy and PyTorch are kept, too. Under another launcher, and
    without --max-restarts, it keeps nothing. Requires PyTorch 2.0, and 2.1 if the parameters are on a GPU.
    """
    return NothingLost(parts)

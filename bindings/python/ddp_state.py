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
import hashlib
import io
import json
import math
import os
import pickle
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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        entry = self._checked(os.pread(fd, _FIELDS.size + 4, 0), -1, fd)
        if not entry or os.fstat(fd).st_size != _ENTRY_BYTES + entry.bytes:
            raise OSError(f"{path} is damaged")
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


def _view(tensor):
    """Returns the memory of a tensor on the CPU, which is contiguous and not empty."""
    view = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    view.owner = tensor
    return view


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
            layout, value = (value.placements, value.shape, value.stride()), value.to_local()
        value = value.detach()
        at, self.bytes = self.bytes, self.bytes + value.numel() * value.element_size()
        self.tensors.append(value)
        return at, value.shape, value.dtype, layout, name


class _Unpickler(pickle.Unpickler):
    """Fills the tensors of modules in place, and makes the others."""

    def __init__(self, file, fill, mesh, live):
        super().__init__(file)
        self.fill, self.mesh, self.live = fill, mesh, live

    def persistent_load(self, description):
        at, shape, dtype, layout, name = description
        live = self.live.get(name)
        local = live.to_local() if layout and live is not None else live
        is_same = local is not None and local.shape == shape and local.dtype == dtype and local.is_contiguous()
        tensor = local if is_same else torch.empty(shape, dtype=dtype)
        if tensor.numel() > 0:
            self.fill(at, _view(tensor))
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
        return python, _view(torch.get_rng_state()).raw, numpy

    def set(self, states):
        python, cpu, numpy = states
        random.setstate(self._of_python(*python) if len(python) == 2 else python)
        torch.set_rng_state(torch.frombuffer(bytearray(cpu), dtype=torch.uint8))
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


class NothingLost:
    """Represents the training of a program. `step` is the number of steps that are finished."""

    def __init__(self, parts):
        self.step, self.memory = 0, None
        self.random, self.begins_with = _RandomStates(), None
        self.large = {name: part for name, part in parts.items()
                      if isinstance(part, (torch.nn.Module, torch.optim.Optimizer))}
        self.other = {name: part for name, part in parts.items() if name not in self.large}
        self.modules = [part for part in self.large.values() if isinstance(part, torch.nn.Module)]
        self.buffers = [(module._buffers, name) for part in self.modules for module in part.modules()
                        for name, buffer in module._buffers.items()
                        if buffer is not None and 0 < buffer.numel() * buffer.element_size() <= _SMALL_BUFFER]
        self.gate = threading.Lock()  # held while the state changes, and while it is copied
        self.is_changing = False  # by the main thread
        self.is_asked = False  # by the launcher, which ends this process next
        self.early = (0, {})
        self.first_step, self.began = None, 0.0  # the first step that is finished in this attempt, and when that was
        self.image_share, self.image_every, self.copying, self.has_room = 0, 16, 0.0, True
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
        if any(parameter.is_cuda for module in self.modules for parameter in module.parameters()):
            print("nothing_lost: no state is kept: that of parameters on a GPU cannot be kept yet", file=sys.stderr)
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
            self.gate.release()
        if self.image_share:
            self._make_image()

    # --- What a rank has of its own is written in each step.

    def _key(self):
        """Returns a number that ranks have in common if they have the same parameters."""
        key = hashlib.blake2b(digest_size=8)
        for module in self.modules:
            for name, parameter in module.named_parameters():
                local = (parameter.to_local() if hasattr(parameter, "placements") else parameter).detach()
                key.update(repr((name, local.shape, local.dtype)).encode())
                if local.numel() > 0:
                    key.update(_view(local.flatten()[:4]))
        return int.from_bytes(key.digest(), "little")

    def _note(self, kind, step):
        own = {name: pickle.dumps(part.state_dict()) for name, part in self.other.items()}
        own["random"] = self.random.read()
        own["buffers"] = {at: _view(of[name].contiguous()).raw for at, (of, name) in enumerate(self.buffers)
                          if name in of and of[name] is not None}
        moved = []
        if kind == _EARLY:
            self.early = step, own
        else:
            moved = [name for name in own if self.early[0] != step or own[name] != self.early[1][name]]
            kind = _FINAL_MOVED if "random" in moved or "buffers" in moved else _FINAL
        places = [(2 * step + (kind != _EARLY)) % len(_RECENT)]
        if kind != _EARLY and self._is_image(step):
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
        if self._is_image(self.step) and self.memory:
            begin = time.monotonic()
            with self.gate:
                self._try_copy()
            self.copying = time.monotonic() - begin if self.has_room else 0.0
        is_after_image = steps % 16 == 0 and self._is_image(self.step)
        if steps >= 32 and (is_after_image or steps & (steps - 1) == 0):
            disk = self.memory.image_time() if self.memory else 0.0
            longest = torch.tensor([self.copying, (time.monotonic() - self.began) / steps, disk], dtype=torch.float64)
            if dist.is_initialized():  # all ranks need the same N
                dist.all_reduce(longest, dist.ReduceOp.MAX)
            copy, step, disk = longest.tolist()
            if needed := max(copy / (self.image_share * step), disk / step):
                self.image_every = 1 << max(math.ceil(math.log2(needed)), 0)

    def _keep(self):
        for part in self.large.values():
            if isinstance(part, torch.nn.Module):
                part.register_forward_hook(self._after_forward)
            else:
                part.register_step_pre_hook(lambda *_: self._begin_change())
        usual = sys.excepthook

        def on_exception(*exception):
            try:
                if not self.is_changing:
                    self._save()
            except Exception as error:  # the program's own exception must be seen in any case
                print(f"nothing_lost: the state is not kept: {error}", file=sys.stderr)
            if self.is_asked:  # this rank lost another one, so that its exception says nothing new
                time.sleep(1)
            usual(*exception)

        sys.excepthook = on_exception
        atexit.register(lambda: self.is_changing or self.gate.acquire(timeout=_PATIENCE))
        threading.Thread(target=self._answer, name="nothing_lost", daemon=True).start()
        self.memory.put(_KEEPS_AT, self.attempt + 1)

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
            self.gate.acquire()
            self.is_changing = True

    def _answer(self):
        """Waits until the launcher gives up its lock, which means that a rank is lost."""
        fcntl.lockf(self.memory.fd, fcntl.LOCK_SH, 1, _REQUEST_AT)
        self.is_asked = True
        try:
            self._save()
        finally:
            self.memory.put(_ANSWERED_AT, self.attempt + 1)

    def _save(self):
        """Copies the state of the last finished step, unless another rank of this node does."""
        until = time.monotonic() + _PATIENCE
        while not self.gate.acquire(timeout=0.02):
            if self._is_kept() or time.monotonic() > until:
                return
        try:
            while not self._is_kept() and time.monotonic() < until and not self._try_copy():
                time.sleep(0.002)
        finally:
            self.gate.release()

    def _try_copy(self):
        """Copies the state unless it is kept. Returns False if another rank does."""
        claim = self.key % _CLAIMS
        if not self.memory.try_claim(claim):
            return False
        if not self._is_kept():
            self._copy()
        self.memory.give_up(claim)
        return True

    def _whole_states(self):
        """Returns the entries of whole states with this rank's key, the oldest first."""
        entries = (self.memory.entry(area, place) for area in range(self.areas) for place in _WHOLE)
        return sorted((entry for entry in entries if entry and entry.key == self.key),
                      key=lambda entry: (entry.attempt, entry.step))

    def _is_kept(self):
        return self.step == 0 or any((entry.attempt, entry.step) >= (self.attempt, self.step) for entry in self._whole_states())

    def _by_age(self, places):
        """Returns the places of this rank's area, those without an entry first, and then the oldest."""
        entries = {place: self.memory.entry(self.memory.area, place) for place in places}
        return sorted(places, key=lambda place: (entries[place].attempt, entries[place].step) if entries[place] else (-1, -1))

    def _copy(self):
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
                self._copy_to(area, place, sum(entry.bytes for entry in known))
                return self.memory.give_up(claim)

    def _copy_to(self, area, place, allocated):
        skeleton = io.BytesIO()
        state = {name: part.state_dict() for name, part in self.large.items()}
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
        tensors = (_view(tensor.contiguous()) for tensor in pickler.tensors if tensor.numel() > 0)
        self.memory.write(area, place, (part for parts in ([head], tensors) for part in parts), self.step, self.key, _STATE,
                          self.attempt, self.rank, self.world)

    # --- An attempt begins with what was kept.

    def _restore(self, plan):
        if "image" in plan:
            own, shared, whole = self._of_image(plan["image"])
        else:
            self._transfer(plan["transfers"])
            own, shared, whole = (self.memory.entry(*plan[name]) if name in plan else None
                                  for name in ("own", "shared", "whole"))
        self._load(whole)
        if own:
            parts, _ = pickle.loads(self.memory.read(own, 0, bytearray(own.bytes)))
            if shared:  # this rank was lost before it had finished the step
                of_other, moved = pickle.loads(self.memory.read(shared, 0, bytearray(shared.bytes)))
                parts.update({name: of_other[name] for name in moved})
            self._load_own(parts)
        for entry in (own, whole):
            if entry and entry.area < 0:
                os.close(entry.place)
        self.step, self.key = whole.step, whole.key
        self.memory.put(_RESTORED_AT, self.attempt + 1, self.step)

    def _of_image(self, image):
        try:
            own = self.memory.file(f"{image}/rank-0")
            if own.world == self.world:
                os.close(own.place)
                own = self.memory.file(f"{image}/rank-{self.rank}")
            whole = self.memory.file(f"{image}/whole-{own.key:x}")
        except OSError as error:
            raise RuntimeError(f"nothing_lost: {error}. All nodes need the same --image-dir.") from error
        return own if own.world == self.world else None, None, whole

    def _load(self, entry):
        size = struct.unpack("=Q", self.memory.read(entry, 0, bytearray(8)))[0]
        skeleton = io.BytesIO(self.memory.read(entry, 8, bytearray(size)))
        meshes = (parameter.device_mesh for module in self.modules for parameter in module.parameters()
                  if hasattr(parameter, "device_mesh"))
        fill = lambda at, view: self.memory.read(entry, 8 + size + at, view)
        live = self._live({name: part.state_dict() for name, part in self.large.items()})
        state = _Unpickler(skeleton, fill, next(meshes, None), live).load()
        for name, part in self.large.items():
            if state[name].keys() != {key for of, key in live if of == name} or any(
                    value is not live[name, key] for key, value in state[name].items()):
                part.load_state_dict(state[name])

    def _live(self, state):
        """Returns the tensors of modules, which the program uses itself, by their names."""
        return {(name, key): value for name, part in self.large.items() if isinstance(part, torch.nn.Module)
                for key, value in state[name].items() if isinstance(value, torch.Tensor)}

    def _load_own(self, parts):
        for name, part in self.other.items():
            part.load_state_dict(pickle.loads(parts[name]))
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

    def _send(self, rank, data):
        dist.send(torch.frombuffer(bytearray(data), dtype=torch.uint8), rank)

    def _receive(self, rank, size):
        tensor = torch.empty(size, dtype=torch.uint8)
        dist.recv(tensor, rank)
        return _view(tensor)


def nothing_lost(**parts):
    """Returns the training, with the kept state loaded into the parts, if there is one: see NothingLost.

    The parts are modules, optimizers, and other objects with state_dict() and load_state_dict(): a scheduler, a gradient
    scaler, a data loader or sampler. All ranks call it, with the same names, after init_process_group() and
    DistributedDataParallel(). The random states of Python, NumPy and PyTorch are kept, too. Under another launcher, and
    without --max-restarts, it keeps nothing. Requires PyTorch 2.0.
    """
    return NothingLost(parts)

"""Simulates a GPU for PyTorch without CUDA: begin() makes this thread a program whose tensors may be on it.

Tensors of to_gpu(), and those computed from them, are in an arena that stands for GPU memory. What changes them is put
on a stream, which is a thread, so the host runs ahead as with CUDA. put() puts any function there, such as a collective
that waits for another rank. Random numbers must be drawn in host memory.
"""
import contextlib
import mmap
import queue
import threading
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

ARENA = 4 << 30
_arena = mmap.mmap(-1, ARENA, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
_memory = torch.frombuffer(_arena, dtype=torch.uint8)
_first, _used, _lock = _memory.data_ptr(), 0, threading.Lock()
_thread = threading.local()


def is_on_gpu(value):
    return isinstance(value, torch.Tensor) and value.numel() > 0 and _first <= value.data_ptr() < _first + ARENA


def allocate(shape, stride, dtype):
    global _used
    count = 1 + sum((size - 1) * step for size, step in zip(shape, stride))
    with _lock:
        at, _used = _used, _used + -(-count * dtype.itemsize // 64) * 64
    typed = torch.empty(0, dtype=dtype)
    return typed.set_(_memory.untyped_storage(), at // dtype.itemsize, shape, stride)


def to_gpu(tensor):
    with _disable_current_modes():
        result = allocate(tensor.shape, tensor.stride(), tensor.dtype)
        result.copy_(tensor.detach())
    return result


def move(module):
    """Moves the parameters and buffers of a module to the GPU."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = torch.nn.Parameter(to_gpu(parameter))
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = to_gpu(buffer)
    return module


class Stream:
    def __init__(self, *_, **__):
        self.work = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, action):
        self.work.put(action)

    def _run(self):
        torch.set_grad_enabled(False)
        while True:
            self.work.get()()

    def synchronize(self):
        done = threading.Event()
        self.put(done.set)
        done.wait()


class Event:
    def __init__(self, enable_timing=False, blocking=False):
        self.enable_timing, self.done, self.at = enable_timing, threading.Event(), None

    def record(self, stream):
        self.done = done = threading.Event()

        def reach():
            self.at = time.monotonic()
            done.set()

        stream.put(reach)

    def query(self):
        return self.done.is_set()

    def synchronize(self):
        self.done.wait()

    def elapsed_time(self, other):
        assert self.enable_timing and other.enable_timing and self.query() and other.query()
        return (other.at - self.at) * 1e3


def current_stream(_=None):
    return getattr(_thread, "stream", _default)


@contextlib.contextmanager
def stream(which):
    before, _thread.stream = current_stream(), which
    with _Late():
        yield
    _thread.stream = before


def put(action):
    current_stream().put(action)


class _Late(TorchDispatchMode):
    """Puts operators with tensors on the GPU on the current stream."""

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        options, found = options or {}, []
        tree_map(lambda value: found.append(value) if is_on_gpu(value) else None, (arguments, options))
        schema = operator._schema
        is_view = any(each.alias_info and not each.alias_info.is_write for each in schema.returns)
        if not found or is_view:
            return operator(*arguments, **options)
        if operator is torch.ops.aten._local_scalar_dense.default or operator.namespace == "c10d":
            current_stream().synchronize()
            return operator(*arguments, **options)
        if operator is torch.ops.aten.copy_.default:
            return self._copy(*arguments, **options)
        return self._later(operator, schema, arguments, options)

    def _copy(self, to, source, non_blocking=False):
        target = to.data
        source = source.data if is_on_gpu(source) else source.detach().clone()
        put(lambda: target.copy_(source))
        if not is_on_gpu(to) and not non_blocking:
            current_stream().synchronize()
        return to

    def _later(self, operator, schema, arguments, options):
        actual = tree_map(lambda value: value.data if isinstance(value, torch.Tensor) else value, (arguments, options))
        written = {str(each.alias_info.before_set): value for each, value in zip(schema.arguments, arguments)
                   if each.alias_info and each.alias_info.is_write}
        results = [written[str(each.alias_info.before_set)] if each.alias_info else None for each in schema.returns]
        if not results or all(result is not None for result in results):
            put(lambda: operator(*actual[0], **actual[1]))
        else:
            def shape(value):
                return torch.zeros_like(value) if isinstance(value, torch.Tensor) else value
            shapes = tree_map(shape, actual)
            made = operator(*shapes[0], **shapes[1])
            many = made if isinstance(made, (tuple, list)) and len(schema.returns) > 1 else [made]
            results = [tree_map(lambda value: allocate(value.shape, value.stride(), value.dtype)
                                if isinstance(value, torch.Tensor) and value.numel() else value, each)
                       if result is None else result for result, each in zip(results, many)]

            targets = tree_map(lambda value: value.data if is_on_gpu(value) else None, results)

            def compute():
                done = operator(*actual[0], **actual[1])
                for target, each in zip(targets, done if many is made else [done]):
                    for to, value in zip(target, each) if isinstance(target, list) else [(target, each)]:
                        if to is not None and to.data_ptr() != value.data_ptr():
                            to.copy_(value)

            put(compute)
        return results[0] if len(results) == 1 else tuple(results) if results else None


_default = Stream()


def enter():
    """Makes this thread one of the program."""
    _Late().__enter__()


def begin(ddp_state):
    """Makes this thread a program on the GPU, and lets `ddp_state` see the GPU."""
    empty = torch.empty

    def make(*shape, device=None, pin_memory=False, **options):
        made = empty(*shape, **options)
        return allocate(made.shape, made.stride(), made.dtype) if device is not None and made.numel() else made

    def cpu(tensor):
        current_stream().synchronize()
        with _disable_current_modes():
            return tensor.clone()

    place = torch.optim.Optimizer._process_value_according_to_param_policy

    def place_like(parameter, value, number, groups, key=None):
        value = place(parameter, value, number, groups, key)
        return to_gpu(value) if is_on_gpu(parameter) and key != "step" else value

    torch.optim.Optimizer._process_value_according_to_param_policy = staticmethod(place_like)
    torch.Tensor.cpu = cpu
    ddp_state._is_on_gpu = is_on_gpu
    torch.empty = make
    for name, value in {"Stream": Stream, "Event": Event, "current_stream": current_stream, "stream": stream,
                        "is_current_stream_capturing": lambda: False,
                        "get_rng_state": lambda _: torch.zeros(16, dtype=torch.uint8),
                        "set_rng_state": lambda *_: None}.items():
        setattr(torch.cuda, name, value)
    if torch.distributed.is_initialized():
        add = torch.distributed.all_reduce

        def all_reduce(*arguments, **options):  # all collectives of a rank are in the order of the stream
            put(lambda: add(*arguments, **options))
            current_stream().synchronize()

        torch.distributed.all_reduce = all_reduce
    enter()

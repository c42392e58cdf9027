"""Simulates one GPU per process: streams that carry out work in order, events, and captured graphs.

Work is a function that returns when it is done. Work on one stream begins when the work before it is done. CUDA's rules
for captures hold: while one is active, a query of an event by any thread breaks it.
"""
import contextlib
import os
import queue
import threading
import time


class Stream:
    def __init__(self):
        self._queue, self._last = queue.SimpleQueue(), threading.Event()
        self._last.set()
        threading.Thread(target=self._run, daemon=True).start()

    def enqueue(self, work):
        """Returns an event that is set when the work is done."""
        self._last = threading.Event()
        self._queue.put((work, self._last))
        return self._last

    def record(self):
        """Returns an event that is set when all work that was enqueued before is done."""
        return self._last

    def wait_for(self, event):
        self.enqueue(event.wait)

    def _run(self):
        while True:
            work, done = self._queue.get()
            work()
            done.set()


class _Capture:
    """`lock` makes the test for a capture and the query one operation, as in the driver."""

    lock = threading.Lock()
    active = None


compute = Stream()


FREED = object()


def query(event):
    """cudaEventQuery in the default mode of captures. It may read memory that was freed."""
    if event is FREED:
        os.abort()
    with _Capture.lock:
        if _Capture.active is not None:
            _Capture.active.is_broken = True
        return event.is_set()


def is_capturing():
    return _Capture.active is not None


def kernel(seconds):
    """Enqueues a kernel that computes for so long."""
    if is_capturing():
        _Capture.active.works.append(lambda: time.sleep(seconds))
    else:
        compute.enqueue(lambda: time.sleep(seconds))


def synchronize():
    """Waits as CUDA does by default: the thread spins."""
    last = compute.record()
    while not last.is_set():
        time.sleep(0.0005)


class CUDAGraph:
    def __init__(self):
        self.works, self.is_broken = [], False

    def capture_begin(self):
        with _Capture.lock:
            _Capture.active = self

    def capture_end(self):
        with _Capture.lock:
            _Capture.active = None
        if self.is_broken:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    def replay(self):
        for work in self.works:
            compute.enqueue(work)


@contextlib.contextmanager
def graph(captured):
    """torch.cuda.graph: begins when the GPU has no work. PyTorch may not have taken note yet that calls have ended."""
    synchronize()
    captured.capture_begin()
    yield
    captured.capture_end()

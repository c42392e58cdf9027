"""Shows ddplaunch what this process is doing.

If the job hangs, ddplaunch reports it. ddplaunch does not report a process that makes progress as hung.

This is one file, to be copied or put on the path, for Python 3.7 and later. It needs only the standard library.

    import ddp_page

    for epoch in range(epochs):
        for batch in batches:
            train(batch)
            ddp_page.progress(step, total, loss=loss)     # shows how far the program is; or heartbeat()
        with ddp_page.phase("evaluation", "validation"):  # the previous phase is restored at the end
            evaluate()
        ddp_page.extend(1800)                             # the next operation may take half an hour
        write_checkpoint()
        if ddp_page.should_stop():                        # ddplaunch --save-grace: the job's time is over
            break

Without ddplaunch, the functions do nothing. The status page belongs to the process that used it first. Its children,
such as the workers of a DataLoader, do not write to it. If a child imports this module and uses it before its parent
imports it, the page belongs to the child. Import the module in the main program to prevent this. Any thread may call
all functions. The whole process has one phase.
"""
import math
import mmap
import os
import struct
import sys
import threading
import time

# A signal handler that interrupts an import may see an unfinished module, so nothing is imported later.
try:
    import fcntl
except ImportError:  # on some systems, where there is no status page
    fcntl = None

__all__ = ["PHASES", "extend", "heartbeat", "phase", "progress", "should_stop"]

# docs/development/protocol.md, section 6, describes the layout of the page. A page with another version or size is not
# used.
_MAGIC = 0x50504444
_VERSION = 6
_BYTES = 153984
# These are the positions of the fields, counted in numbers of 4 bytes, in numbers of 8 bytes, or in bytes.
_MAGIC_AT, _VERSION_AT, _BYTES_AT, _WRITER_AT, _WORLDS_ENTERED_AT = 0 // 4, 4 // 4, 8 // 4, 28 // 4, 40 // 4
_OTHER_PROGRESS_AT = 48 // 8
_STOP_REQUEST_AT, _PROGRESS_DONE_AT, _PROGRESS_TOTAL_AT = 64 // 4, 88 // 8, 96 // 8
_WORKER = 128
_CHANGES_AT, _PHASE_AT, _LINE_AT = (_WORKER + 0) // 4, (_WORKER + 4) // 4, (_WORKER + 16) // 4
_SINCE_AT, _STEPS_AT, _MORE_TIME_AT = (_WORKER + 8) // 8, (_WORKER + 24) // 8, (_WORKER + 32) // 8
_NAME_BYTES, _FILE_BYTES = 48, 80
_TEXTS = slice(_WORKER + 64, _WORKER + 64 + _NAME_BYTES + _FILE_BYTES)  # slice of name and file

# Section 8 describes the layout of the record ring, which takes records of steps and phases, and the program's values.
_RING_MAGIC = 0x52504444
_RING_VERSION = 1
_RING_BYTES = 147968
_RING_MODE_AT, _RING_WRITER_AT, _DROPPED_AT, _CLAIMED_AT, _TAKEN_AT = 12 // 4, 16 // 4, 24 // 8, 64 // 8, 128 // 8
_VALUES_CHANGED_AT, _VALUE_COUNT_AT, _VALUES, _MOST_VALUES, _VALUE_BYTES = 192 // 4, 196 // 4, 200, 8, 32
_VALUE_NAME_BYTES = 24
_NAMES, _NAME_COUNT, _NAME_BYTES_IN_RING, _NAME_IS_WRITTEN = 512, 256, 64, 1
_RECORDS, _RECORD_COUNT, _RECORD_BYTES = 16896, 4096, 32
_RECORD = struct.Struct("=QQIBBBB")  # end, bytes, number, kind, group, operation, name
_MODES_WITH_STEPS = (1, 2)
_STEP, _PHASE, _NO_GROUP = 1, 5, 255

_MOST_SECONDS = 1e9  # 31 years
_MOST_STEPS = (1 << 64) - 1

# The number of a phase is its index. ddplaunch allows more time in evaluation, checkpoint and data_loading.
PHASES = ("starting", "connected", "rendezvous", "communicator", "training", "evaluation", "checkpoint", "data_loading",
          "finishing", "done")
_NUMBERS = {name: number for number, name in enumerate(PHASES)}
_TRAINING = _NUMBERS["training"]

_process = os.getpid()
_is_open = False
_page = None
# The lock is reentrant, because a signal handler may call the function that it interrupts. A forked child never
# acquires it, because it may be held there forever.
_lock = threading.RLock()


class _Page:
    """Represents the mapped page, as numbers of 4 bytes, as numbers of 8 bytes, and as bytes."""

    __slots__ = ("u32", "u64", "bytes", "ring")

    def __init__(self, memory):
        self.ring = None
        self.bytes = memoryview(memory)
        self.u32 = self.bytes.cast("I")
        self.u64 = self.bytes.cast("Q")


class _Ring:
    """Represents the mapped record ring. The caller holds the module's lock.

    Python has no atomic operations. A writer without them holds a lock on the file while it writes a record, as does
    ddp_torch_reader. If the lock is taken, the record is dropped. The runtime does not take the lock, so nothing is
    recorded here if this process uses the runtime, too.
    """

    def __init__(self, memory, fd):
        self.bytes = memoryview(memory)
        self.u32 = self.bytes.cast("I")
        self.u64 = self.bytes.cast("Q")
        self.fd = fd
        self.names = {}  # index by text
        self.step_end = None
        self.step = None
        self.is_busy = False

    def is_on(self, page):
        return self.u32[_RING_MODE_AT] in _MODES_WITH_STEPS and page.u32[_WORLDS_ENTERED_AT] == 0

    def add(self, kind, begin, end, number=0, operation=0, name=b""):
        """Returns whether the record has not been dropped."""
        if self.is_busy:  # a signal handler has interrupted this function
            return False
        self.is_busy = True
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.u64[_DROPPED_AT] += 1
            self.is_busy = False
            return False
        try:
            taken = self.u64[_TAKEN_AT]
            claimed = max(self.u64[_CLAIMED_AT], taken)
            if claimed - taken >= _RECORD_COUNT:
                self.u64[_DROPPED_AT] += 1
                return False
            index = self.name(name)
            self.u64[_CLAIMED_AT] = claimed + 1
            at = _RECORDS + claimed % _RECORD_COUNT * _RECORD_BYTES
            self.bytes[at + 8:at + _RECORD_BYTES] = _RECORD.pack(end, 0, number & 0xFFFFFFFF, kind, _NO_GROUP,
                                                                 operation, index)
            # A thread or a signal handler may have ended a step or a phase since this function's caller read the time.
            self.u64[at // 8] = min(begin, end)
            return True
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)
            self.is_busy = False

    def name(self, text):
        """Returns the index of the name in the ring, which has it from now on, or 0 if there is no free entry."""
        if not text or text in self.names:
            return self.names.get(text, 0)
        for index in range(1, _NAME_COUNT):
            at = _NAMES + index * _NAME_BYTES_IN_RING
            if self.u32[at // 4] == 0:
                self.u32[at // 4] = _NAME_IS_WRITTEN
                self.bytes[at + 4:at + _NAME_BYTES_IN_RING] = text[:_NAME_BYTES_IN_RING - 5].ljust(
                    _NAME_BYTES_IN_RING - 4, b"\0")
                self.u32[at // 4] = index + _NAME_IS_WRITTEN
                self.names[text] = index
                return index
        return 0

    def end_step(self, page, number, is_recorded=True):
        """Begins the next step now, and records the one that ends now, unless it is unknown when that one began."""
        if not self.is_on(page):
            self.step_end = None
            return
        begin, end = self.step_end, time.monotonic_ns()
        self.step_end = end
        if is_recorded and begin is not None:
            self.add(_STEP, begin, end, number)

    def show_progress(self, page, step):
        before, self.step = self.step, step
        # A program that sends heartbeats, or synchronises with the runtime, has its steps counted there.
        if page.u64[_STEPS_AT] == 0 and step != before:
            self.end_step(page, step, before is not None and step > before)

    def show_values(self, values):
        odd = self.u32[_VALUES_CHANGED_AT] | 1
        self.u32[_VALUES_CHANGED_AT] = odd
        for i, (name, value) in enumerate(values):
            at = _VALUES + i * _VALUE_BYTES
            self.bytes[at:at + _VALUE_BYTES] = name + struct.pack("=d", value)
        self.u32[_VALUE_COUNT_AT] = len(values)
        self.u32[_VALUES_CHANGED_AT] = (odd + 1) & 0xFFFFFFFF


def _claim(fd, page, writer_at):
    """Returns whether this process is the writer of the memory, after it tried to become the writer."""
    # Python has no compare-and-swap. The lock keeps out other Python processes. A process that does not get it at once
    # is too late to become the writer.
    if page.u32[writer_at] == _process:
        return True
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        if page.u32[writer_at] == 0:
            page.u32[writer_at] = _process
        return page.u32[writer_at] == _process
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def _descriptor(variable):
    """Returns the number in the variable, or -1 if it has none."""
    digits = os.environ.get(variable, "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1


def _open():
    """Returns the page, or None if there is none, or if it belongs to another process.

    The descriptor may be closed or refer to something else.
    """
    fd = _descriptor("DDP_PAGE_FD")
    try:
        if fd < 0 or os.fstat(fd).st_size != _BYTES:
            return None
        page = _Page(mmap.mmap(fd, _BYTES))
        is_page = page.u32[_MAGIC_AT] == _MAGIC and page.u32[_VERSION_AT] == _VERSION
        if not (is_page and _claim(fd, page, _WRITER_AT)):
            return None
    except (OSError, ValueError):
        return None
    page.ring = _open_ring()
    return page


def _open_ring():
    """Does the same for the record ring."""
    fd = _descriptor("DDP_RECORD_FD")
    try:
        if fd < 0 or os.fstat(fd).st_size < _RING_BYTES:
            return None
        # The program may close the descriptor that it has inherited.
        ring = _Ring(mmap.mmap(fd, _RING_BYTES), os.dup(fd))
        is_ring = ring.u32[_MAGIC_AT] == _RING_MAGIC and ring.u32[_VERSION_AT] == _RING_VERSION
        is_whole = ring.u32[_BYTES_AT] >= _RING_BYTES
        return ring if is_ring and is_whole and _claim(fd, ring, _RING_WRITER_AT) else None
    except (OSError, ValueError):
        return None


def _forget():
    """Drops the page in a forked child, because it belongs to the parent."""
    global _page, _is_open
    _page = None
    _is_open = True


def _mine():
    """Returns the page if this process is to write it, else None."""
    global _page, _is_open
    if _is_open:
        return _page
    if os.getpid() != _process:  # a child forked before the first use
        _forget()
        return None
    with _lock:
        if not _is_open:
            page = _open()
            if not _is_open:  # otherwise a signal handler has opened it meanwhile
                _page = page
                if _page is not None:
                    os.register_at_fork(after_in_child=_forget)
                _is_open = True
    return _page


def heartbeat():
    """Reports progress. A program calls it after each step, for example. It costs some microseconds at most."""
    page = _mine()
    if page is not None:
        # If a C++ runtime in this process counts at the same moment, one of the two counts may be lost. That is
        # harmless.
        with _lock:
            page.u64[_STEPS_AT] += 1
            if page.ring is not None:
                page.ring.end_step(page, page.u64[_STEPS_AT])


class _PhaseScope:
    """Represents the result of phase(). It restores the previous phase when its `with` block ends."""

    __slots__ = ("_before",)

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._before is not None:
            _enter(*self._before)


def _text(text, size, first, last):
    """Returns `size` bytes that end with 0: the start or the end of the text, cut between whole characters."""
    cut = text.encode("utf-8", "replace")[first:last]
    return cut.decode("utf-8", "ignore").encode("utf-8").ljust(size, b"\0")


def _enter(number, line, texts):
    """Writes the phase of this process. Returns the previous phase, or None if there is no page."""
    page = _mine()
    if page is None:
        return None
    u32 = page.u32
    with _lock:
        # The previous phase is read from the page, because a C++ runtime in this process may have written it.
        before = (u32[_PHASE_AT], u32[_LINE_AT], bytes(page.bytes[_TEXTS]))
        now, since = time.monotonic_ns(), page.u64[_SINCE_AT]
        if page.ring is not None and since > 0 and before[0] != _TRAINING and page.ring.is_on(page):
            page.ring.add(_PHASE, since, now, 0, before[0] & 0xFF, before[2][:_NAME_BYTES].partition(b"\0")[0])
        # The number is odd while the other fields are written. Python has no memory fences. If the processor reorders
        # the writes, the launcher may read a mix for a moment, and copes with it.
        odd = u32[_CHANGES_AT] | 1
        u32[_CHANGES_AT] = odd
        u32[_PHASE_AT] = number
        page.u64[_SINCE_AT] = now
        u32[_LINE_AT] = line
        page.bytes[_TEXTS] = texts
        u32[_CHANGES_AT] = (odd + 1) & 0xFFFFFFFF
    return before


def phase(name_of_phase, name=""):
    """Reports that this process is in that phase (one of PHASES) from now on, or until the `with` block ends:

        ddp_page.phase("training")
        with ddp_page.phase("evaluation", "validation set"): ...

    `name` describes the phase and is cut to 47 bytes. The source location of the call is kept too. Raises ValueError if
    the phase is unknown.
    """
    number = _NUMBERS.get(name_of_phase)
    if number is None:
        raise ValueError("unknown phase {!r}; the phases are {}".format(name_of_phase, ", ".join(PHASES)))
    if _mine() is None:
        return _PhaseScope(None)
    caller = sys._getframe(1)
    texts = (_text(str(name), _NAME_BYTES, None, _NAME_BYTES - 1) +
             _text(caller.f_code.co_filename, _FILE_BYTES, 1 - _FILE_BYTES, None))
    return _PhaseScope(_enter(number, caller.f_lineno or 0, texts))


def extend(seconds):
    """Asks for time: ddplaunch does not report this process as hung until so many seconds are over.

    If several calls ask for time, the latest moment counts. Raises ValueError if the number is negative or not finite.
    """
    seconds = float(seconds)
    if not 0 <= seconds < math.inf:
        raise ValueError("cannot ask for {} seconds: not a finite number from 0".format(seconds))
    page = _mine()
    if page is None:
        return
    until = time.monotonic_ns() + int(min(seconds, _MOST_SECONDS) * 1e9)
    with _lock:
        if page.u64[_MORE_TIME_AT] < until:
            page.u64[_MORE_TIME_AT] = until


def progress(done, total=0, **values):
    """Reports that `done` of `total` steps are done; `total` is 0 if unknown. Also reports values, such as the loss:

        ddp_page.progress(step, total, loss=loss)

    ddplaunch shows them in its progress line, its live view and its reports. It shows up to 8 values, and the first 23
    bytes of each name. A value may be infinite or NaN. A call without values leaves the previous ones in place.

    The call counts as progress, like a heartbeat. In a program that sends no heartbeats, a call with a larger number
    than before ends a step, whose duration ddplaunch shows. Raises ValueError if a number of steps is negative or has
    more than 64 bits, and the error of float() if a value is no number.
    """
    done, total = int(done), int(total)
    if done < 0 or total < 0:
        raise ValueError("cannot have done {} of {} steps: a number is negative".format(done, total))
    if max(done, total) > _MOST_STEPS:
        raise ValueError("cannot have done {} of {} steps: a number has more than 64 bits".format(done, total))
    values = [(name, float(value)) for name, value in values.items()]
    page = _mine()
    if page is None:
        return
    values = [(_text(name, _VALUE_NAME_BYTES, None, _VALUE_NAME_BYTES - 1), value)
              for name, value in values[:_MOST_VALUES]]
    with _lock:
        if page.ring is not None:
            if values:
                page.ring.show_values(values)
            page.ring.show_progress(page, done)
        page.u64[_PROGRESS_TOTAL_AT] = total
        page.u64[_PROGRESS_DONE_AT] = done
        page.u64[_OTHER_PROGRESS_AT] += 1


def should_stop():
    """Returns whether ddplaunch asks the program to save and exit (ddplaunch --save-grace). False without ddplaunch.

    Ranks may see the request at different steps. Ranks that must agree on it reduce the value, for instance with
    PyTorch:

        stop = torch.tensor([float(ddp_page.should_stop())])
        dist.all_reduce(stop, dist.ReduceOp.MAX)
    """
    page = _mine()
    return page is not None and page.u32[_STOP_REQUEST_AT] != 0

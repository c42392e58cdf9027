"""Shows ddplaunch what this process is doing.

If the job hangs, ddplaunch reports it. ddplaunch does not report a process that makes progress as hung.

This is one file, to be copied or put on the path, for Python 3.7 and later. It needs only the standard library.

    import ddp_board

    for epoch in range(epochs):
        for batch in batches:
            train(batch)
            ddp_board.heartbeat()                          # reports progress
        with ddp_board.phase("evaluation", "validation"):  # the previous phase is restored at the end
            evaluate()
        ddp_board.extend(1800)                             # the next operation may take half an hour
        write_checkpoint()
        if ddp_board.should_stop():                        # ddplaunch --save-grace: the job's time is over
            break

Without ddplaunch, the functions do nothing. The status page belongs to the process that used it first. Its children,
such as the workers of a DataLoader, do not write to it. If a child imports this module and uses it before its parent
imports it, the page belongs to the child. Import the module in the main program to prevent this. Any thread may call
all functions. The whole process has one phase.
"""
import math
import mmap
import os
import sys
import threading
import time

__all__ = ["PHASES", "extend", "heartbeat", "phase", "progress", "should_stop"]

# docs/development/protocol.md, section 6, describes the layout of the page. A page with another version or size is not
# used.
_MAGIC = 0x42504444
_VERSION = 5
_BYTES = 153920
# These are the positions of the fields, counted in numbers of 4 bytes, in numbers of 8 bytes, or in bytes.
_MAGIC_AT, _VERSION_AT, _WRITER_AT = 0 // 4, 4 // 4, 28 // 4
_OTHER_PROGRESS_AT = 48 // 8
_STOP_REQUEST_AT, _PROGRESS_DONE_AT, _PROGRESS_TOTAL_AT = 137484 // 4, 137488 // 8, 137496 // 8
_WORKER = 64
_CHANGES_AT, _PHASE_AT, _LINE_AT = (_WORKER + 0) // 4, (_WORKER + 4) // 4, (_WORKER + 16) // 4
_SINCE_AT, _STEPS_AT, _MORE_TIME_AT = (_WORKER + 8) // 8, (_WORKER + 24) // 8, (_WORKER + 32) // 8
_NAME_BYTES, _FILE_BYTES = 48, 80
_TEXTS = slice(_WORKER + 64, _WORKER + 64 + _NAME_BYTES + _FILE_BYTES)  # slice of name and file

_MOST_SECONDS = 1e9  # 31 years

# The number of a phase is its index. ddplaunch allows more time in evaluation, checkpoint and data_loading.
PHASES = ("starting", "connected", "rendezvous", "communicator", "training", "evaluation", "checkpoint", "data_loading",
          "finishing", "done")
_NUMBERS = {name: number for number, name in enumerate(PHASES)}

_process = os.getpid()
_is_open = False
_board = None
# The lock is reentrant, because a signal handler may call the function that it interrupts. A forked child never
# acquires it, because it may be held there forever.
_lock = threading.RLock()


class _Board:
    """Represents the mapped page, as numbers of 4 bytes, as numbers of 8 bytes, and as bytes."""

    __slots__ = ("u32", "u64", "bytes")

    def __init__(self, memory):
        self.bytes = memoryview(memory)
        self.u32 = self.bytes.cast("I")
        self.u64 = self.bytes.cast("Q")


def _claim(fd, board):
    """Returns whether this process is the writer of the page, after it tried to become the writer."""
    # Python has no compare-and-swap. The lock keeps out other Python processes. A process that does not get it at once
    # is too late to become the writer.
    import fcntl  # missing on some systems, but never where a status page exists
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        if board.u32[_WRITER_AT] == 0:
            board.u32[_WRITER_AT] = _process
        return board.u32[_WRITER_AT] == _process
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def _open():
    """Returns the page, or None if there is none, or if it belongs to another process.

    The descriptor may be closed or refer to something else.
    """
    digits = os.environ.get("DDP_BOARD_FD", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    fd = int(digits)
    try:
        if os.fstat(fd).st_size != _BYTES:
            return None
        board = _Board(mmap.mmap(fd, _BYTES))
        is_board = board.u32[_MAGIC_AT] == _MAGIC and board.u32[_VERSION_AT] == _VERSION
        return board if is_board and _claim(fd, board) else None
    except (OSError, ValueError):
        return None


def _forget():
    """Drops the page in a forked child, because it belongs to the parent."""
    global _board, _is_open
    _board = None
    _is_open = True


def _mine():
    """Returns the page if this process is to write it, else None."""
    global _board, _is_open
    if _is_open:
        return _board
    if os.getpid() != _process:  # a child forked before the first use
        _forget()
        return None
    with _lock:
        if not _is_open:
            _board = _open()
            if _board is not None:
                os.register_at_fork(after_in_child=_forget)
            _is_open = True
    return _board


def heartbeat():
    """Reports progress. A program calls it after each step, for example. It costs a fraction of a microsecond."""
    board = _mine()
    if board is not None:
        # If a C++ runtime in this process counts at the same moment, one of the two counts may be lost. That is
        # harmless.
        with _lock:
            board.u64[_STEPS_AT] += 1


class _Section:
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
    board = _mine()
    if board is None:
        return None
    u32 = board.u32
    with _lock:
        # The previous phase is read from the page, because a C++ runtime in this process may have written it.
        before = (u32[_PHASE_AT], u32[_LINE_AT], bytes(board.bytes[_TEXTS]))
        # The number is odd while the other fields are written. Python has no memory fences. If the processor reorders
        # the writes, the launcher may read a mix for a moment, and copes with it.
        odd = u32[_CHANGES_AT] | 1
        u32[_CHANGES_AT] = odd
        u32[_PHASE_AT] = number
        board.u64[_SINCE_AT] = time.monotonic_ns()
        u32[_LINE_AT] = line
        board.bytes[_TEXTS] = texts
        u32[_CHANGES_AT] = (odd + 1) & 0xFFFFFFFF
    return before


def phase(name_of_phase, name=""):
    """Reports that this process is in that phase (one of PHASES) from now on, or until the `with` block ends:

        ddp_board.phase("training")
        with ddp_board.phase("evaluation", "validation set"): ...

    `name` describes the phase and is cut to 47 bytes. The source location of the call is kept too. Raises ValueError if
    the phase is unknown.
    """
    number = _NUMBERS.get(name_of_phase)
    if number is None:
        raise ValueError("unknown phase {!r}; the phases are {}".format(name_of_phase, ", ".join(PHASES)))
    if _mine() is None:
        return _Section(None)
    caller = sys._getframe(1)
    texts = (_text(str(name), _NAME_BYTES, None, _NAME_BYTES - 1) +
             _text(caller.f_code.co_filename, _FILE_BYTES, 1 - _FILE_BYTES, None))
    return _Section(_enter(number, caller.f_lineno or 0, texts))


def extend(seconds):
    """Asks for time: ddplaunch does not report this process as hung until so many seconds are over.

    If several calls ask for time, the latest moment counts. Raises ValueError if the number is negative or not finite.
    """
    seconds = float(seconds)
    if not 0 <= seconds < math.inf:
        raise ValueError("cannot ask for {} seconds: not a finite number from 0".format(seconds))
    board = _mine()
    if board is None:
        return
    until = time.monotonic_ns() + int(min(seconds, _MOST_SECONDS) * 1e9)
    with _lock:
        if board.u64[_MORE_TIME_AT] < until:
            board.u64[_MORE_TIME_AT] = until


def progress(done, total=0):
    """Reports that `done` of `total` steps are done; `total` is 0 if unknown. Reports of ddplaunch show it.

    The call counts as progress, like a heartbeat. Raises ValueError if a number is negative.
    """
    done, total = int(done), int(total)
    if done < 0 or total < 0:
        raise ValueError("cannot have done {} of {} steps: a number is negative".format(done, total))
    board = _mine()
    if board is None:
        return
    with _lock:
        board.u64[_PROGRESS_TOTAL_AT] = total
        board.u64[_PROGRESS_DONE_AT] = done
        board.u64[_OTHER_PROGRESS_AT] += 1


def should_stop():
    """Returns whether ddplaunch asks the program to save and exit (ddplaunch --save-grace). False without ddplaunch.

    Ranks may see the request at different steps. Ranks that must agree on it reduce the value, for instance with
    PyTorch:

        stop = torch.tensor([float(ddp_board.should_stop())])
        dist.all_reduce(stop, dist.ReduceOp.MAX)
    """
    board = _mine()
    return board is not None and board.u32[_STOP_REQUEST_AT] != 0

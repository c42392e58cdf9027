"""Tells ddplaunch what this process is at: a job that hangs is then told of with it, and one that lives is left alone.

One file, to be copied or put on the path, for Python 3.7 and later; the standard library is all it needs.

    import ddp_board

    for epoch in range(epochs):
        for batch in batches:
            train(batch)
            ddp_board.heartbeat()                          # a sign of life
        with ddp_board.phase("evaluation", "validation"):  # the phase before comes back at the end
            evaluate()
        ddp_board.extend(1800)                             # the next thing may take half an hour
        write_checkpoint()
        if ddp_board.should_stop():                        # ddplaunch --save-grace: the time of this job is over
            break

Without ddplaunch nothing is done. The board belongs to the process that used it first: its children, such as the
workers of a DataLoader, do not write. (Only a child that imports this module before its parent does, and uses it first,
takes the board away: import it in the main program.) Any thread may call all functions; the phase is one for the whole
process.
"""
import math
import mmap
import os
import sys
import threading
import time

__all__ = ["PHASES", "extend", "heartbeat", "phase", "progress", "should_stop"]

# The board's layout: docs/development/protocol.md, section 6. A board of another version or size is left alone.
_MAGIC = 0x42504444
_VERSION = 5
_BYTES = 153920
# Where things lie, counted in numbers of 4 bytes and of 8 bytes, and in bytes.
_MAGIC_AT, _VERSION_AT, _WRITER_AT = 0 // 4, 4 // 4, 28 // 4
_OTHER_PROGRESS_AT = 48 // 8
_STOP_REQUEST_AT, _PROGRESS_DONE_AT, _PROGRESS_TOTAL_AT = 137484 // 4, 137488 // 8, 137496 // 8
_WORKER = 64
_CHANGES_AT, _PHASE_AT, _LINE_AT = (_WORKER + 0) // 4, (_WORKER + 4) // 4, (_WORKER + 16) // 4
_SINCE_AT, _STEPS_AT, _MORE_TIME_AT = (_WORKER + 8) // 8, (_WORKER + 24) // 8, (_WORKER + 32) // 8
_NAME_BYTES, _FILE_BYTES = 48, 80
_TEXTS = slice(_WORKER + 64, _WORKER + 64 + _NAME_BYTES + _FILE_BYTES)  # name, file

_MOST_SECONDS = 1e9  # 31 years

# The number of a phase is its place. ddplaunch gives more time in evaluation, checkpoint and data_loading.
PHASES = ("starting", "connected", "rendezvous", "communicator", "training", "evaluation", "checkpoint", "data_loading",
          "finishing", "done")
_NUMBERS = {name: number for number, name in enumerate(PHASES)}

_process = os.getpid()
_is_open = False
_board = None
# A signal's handler may call what it interrupts. A forked child never asks for it: there it may be held for ever.
_lock = threading.RLock()


class _Board:
    """The mapped board, as numbers of 4 bytes, of 8 bytes, and as bytes."""

    __slots__ = ("u32", "u64", "bytes")

    def __init__(self, memory):
        self.bytes = memoryview(memory)
        self.u32 = self.bytes.cast("I")
        self.u64 = self.bytes.cast("Q")


def _claim(fd, board):
    """Whether this process is the writer, or now is."""
    # Python has no compare-and-swap. The lock keeps other Pythons out; who does not get it at once comes too late.
    import fcntl  # not on every system; where there is a board it is
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        if board.u32[_WRITER_AT] == 0:
            board.u32[_WRITER_AT] = _process
        return board.u32[_WRITER_AT] == _process
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def _open():
    """The board; None where there is none, or not ours: the descriptor may be closed, or of something else."""
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
    """In a forked child: the board is its parent's."""
    global _board, _is_open
    _board = None
    _is_open = True


def _mine():
    """The board if this process is to write it, else None."""
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
    """A sign of life, as after each step. Costs a fraction of a microsecond."""
    board = _mine()
    if board is not None:
        # A runtime in C++ in this process may count at the same moment, and one of the two be lost: it is as well.
        with _lock:
            board.u64[_STEPS_AT] += 1


class _Section:
    """What phase() returns: the phase before comes back when its `with` ends."""

    __slots__ = ("_before",)

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._before is not None:
            _enter(*self._before)


def _text(text, size, first, last):
    """`size` bytes that end with 0: the first or the last of the text, in whole characters."""
    cut = text.encode("utf-8", "replace")[first:last]
    return cut.decode("utf-8", "ignore").encode("utf-8").ljust(size, b"\0")


def _enter(number, line, texts):
    """Writes where this process is. Returns where it was; None without a board."""
    board = _mine()
    if board is None:
        return None
    u32 = board.u32
    with _lock:
        # From the board, where a runtime in C++ in this process writes too.
        before = (u32[_PHASE_AT], u32[_LINE_AT], bytes(board.bytes[_TEXTS]))
        # Odd while the rest is written. Python has no memory fences: where the processor changes the order of writes,
        # the reader may see a mix for a moment, with which it copes.
        odd = u32[_CHANGES_AT] | 1
        u32[_CHANGES_AT] = odd
        u32[_PHASE_AT] = number
        board.u64[_SINCE_AT] = time.monotonic_ns()
        u32[_LINE_AT] = line
        board.bytes[_TEXTS] = texts
        u32[_CHANGES_AT] = (odd + 1) & 0xFFFFFFFF
    return before


def phase(name_of_phase, name=""):
    """This process is in that phase (one of PHASES) from now on, or to the end of the block:

        ddp_board.phase("training")
        with ddp_board.phase("evaluation", "validation set"): ...

    `name` says more of it and is cut to 47 bytes. The place of the call is kept too. Raises ValueError for another
    phase.
    """
    number = _NUMBERS.get(name_of_phase)
    if number is None:
        raise ValueError("there is no phase {!r}; there are {}".format(name_of_phase, ", ".join(PHASES)))
    if _mine() is None:
        return _Section(None)
    caller = sys._getframe(1)
    texts = (_text(str(name), _NAME_BYTES, None, _NAME_BYTES - 1) +
             _text(caller.f_code.co_filename, _FILE_BYTES, 1 - _FILE_BYTES, None))
    return _Section(_enter(number, caller.f_lineno or 0, texts))


def extend(seconds):
    """Asks for time: ddplaunch does not take this process for one that hangs before so many seconds are over.

    The latest moment that was asked for counts. Raises ValueError for a number that is negative or not finite.
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
    """How far this process is: `done` steps of `total` (0: not known). Reports show it, and it is progress as a heartbeat is.

    Raises ValueError for a negative number.
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
    """Whether the program has been asked to save and to leave (ddplaunch --save-grace). False without ddplaunch.

    Ranks may see it at different steps. Programs whose ranks must agree reduce it, with PyTorch for instance:

        stop = torch.tensor([float(ddp_board.should_stop())])
        dist.all_reduce(stop, dist.ReduceOp.MAX)
    """
    board = _mine()
    return board is not None and board.u32[_STOP_REQUEST_AT] != 0

#!/usr/bin/env python3
"""record_writers_test.py LIBRARY: checks what bindings/python/ddp_page.py and the runtime library write into a record
ring, byte by byte. A unit test does the same for bindings/c/ddp_page.h."""
import fcntl
import math
import os
import pathlib
import struct
import subprocess
import sys

BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "bindings"
PAGE_MAGIC, PAGE_VERSION, PAGE_BYTES = 0x50504444, 6, 153984
MAGIC, VERSION, BYTES = 0x52504444, 1, 147968
OFF, STEPS, ALL = 0, 1, 2
STEP, COLLECTIVE, WAIT, PHASE = 1, 2, 4, 5
MODE_AT, WRITER_AT, DROPPED_AT, CLAIMED_AT, TAKEN_AT, CHANGES_AT, VALUES_AT = 12, 16, 24, 64, 128, 192, 200
NAMES_AT, RECORDS_AT, RECORD_COUNT = 512, 16896, 4096
RECORD = struct.Struct("=QQQIBBBB")
LAUNCHER_PART = 16  # bytes before the first field that a worker writes


class Worker:
    """Holds a status page and a record ring as the launcher makes them, and runs Python programs with both."""

    def __init__(self, mode: int = STEPS, magic: int = MAGIC, version: int = VERSION, size: int = BYTES, said: int = BYTES,
                 writer: int = 0, worlds: int = 0):
        self.page, self.ring = os.memfd_create("page"), os.memfd_create("ring")
        os.truncate(self.page, PAGE_BYTES)
        os.pwrite(self.page, struct.pack("=III", PAGE_MAGIC, PAGE_VERSION, PAGE_BYTES), 0)
        os.pwrite(self.page, struct.pack("=I", worlds), 40)
        os.truncate(self.ring, size)
        os.pwrite(self.ring, struct.pack("=IIIIi", magic, version, said, mode, writer), 0)

    def runs(self, code: str, variable: str = "", **variables: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(BINDINGS / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                       "DDP_PAGE_FD": str(self.page), "DDP_RECORD_FD": variable or str(self.ring),
                       "PAGE": str(self.page), "RING": str(self.ring), **variables}
        done = subprocess.run([sys.executable, "-c", "import ddp_page, os, struct, time\n" + code], env=environment,
                              pass_fds=[self.page, self.ring], capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def bytes(self) -> bytes:
        return os.pread(self.ring, 1 << 20, 0)

    def number(self, at: int, form: str = "Q") -> int:
        return struct.unpack_from("=" + form, self.bytes(), at)[0]

    def sets(self, at: int, value: int, form: str = "Q") -> None:
        os.pwrite(self.ring, struct.pack("=" + form, value), at)

    def records(self, group: int = 255, size: int = 0) -> list:
        """Returns kind, number, operation, name, begin and end of each record, after a check of the other fields. The
        arguments are those of collectives and waits."""
        data, result = self.bytes(), []
        for i in range(self.number(TAKEN_AT), self.number(CLAIMED_AT)):
            begin, end, held, number, kind, place, operation, name = RECORD.unpack_from(
                data, RECORDS_AT + i % RECORD_COUNT * RECORD.size)
            expected = (size if kind == COLLECTIVE else 0, group if kind in (COLLECTIVE, WAIT) else 255)
            assert 0 < begin <= end and (held, place) == expected, (i, begin, end, held, place)
            text = ""
            if name:
                mark, raw = struct.unpack_from("=I60s", data, NAMES_AT + name * 64)
                assert mark > 1 and raw.endswith(b"\0"), (mark, raw)
                text = raw.rstrip(b"\0").decode()
            result.append((kind, number, operation, text, begin, end))
        return result

    def kinds(self) -> list:
        return [record[:4] for record in self.records()]

    def values(self) -> list:
        data = self.bytes()
        count = self.number(CHANGES_AT + 4, "I")
        pairs = [struct.unpack_from("=24sd", data, VALUES_AT + i * 32) for i in range(count)]
        assert all(name.endswith(b"\0") for name, _ in pairs), pairs
        return [(name.rstrip(b"\0").decode(), value) for name, value in pairs]


def progress_ends_steps_and_shows_values() -> None:
    worker = Worker()
    worker.runs("""
ddp_page.progress(5, 10, loss=2.5)
ddp_page.progress(6, 10)
ddp_page.progress(6, 10)
ddp_page.progress(8, total=10)
ddp_page.progress(1)
ddp_page.progress(done=2, total=10, loss=float("nan"), **{"ä" * 20: float("inf"), "n": True}, **{str(i): i for i in range(9)})
""")
    assert worker.kinds() == [(STEP, 6, 0, ""), (STEP, 8, 0, ""), (STEP, 2, 0, "")], worker.kinds()
    first, second, third = worker.records()
    assert first[5] == second[4] and second[5] < third[4], worker.records()
    (loss, nan), *others = worker.values()
    assert loss == "loss" and math.isnan(nan), worker.values()
    assert others == [("ä" * 11, math.inf), ("n", 1.0), *((str(i), float(i)) for i in range(5))], others
    assert worker.number(CHANGES_AT, "I") == 4
    # With the mode off, values are shown all the same.
    quiet = Worker(mode=OFF)
    quiet.runs("for step in range(5): ddp_page.progress(step, loss=step)")
    assert quiet.kinds() == [] and quiet.values() == [("loss", 4.0)], (quiet.kinds(), quiet.values())


def heartbeats_are_the_steps_of_a_program_that_sends_them() -> None:
    worker = Worker(mode=ALL)
    worker.runs("""
for step in range(4):
    ddp_page.heartbeat()
    ddp_page.progress(step)
""")
    assert worker.kinds() == [(STEP, 2, 0, ""), (STEP, 3, 0, ""), (STEP, 4, 0, "")], worker.kinds()


def phases_other_than_training_are_recorded_when_they_end() -> None:
    worker = Worker()
    worker.runs("""
ddp_page.phase("training")
for _ in range(2):
    with ddp_page.phase("evaluation", "validation set"):
        with ddp_page.phase("data_loading", "x" * 100): pass
""")
    evaluation, loading = (PHASE, 0, 5, "validation set"), (PHASE, 0, 7, "x" * 47)
    assert worker.kinds() == 2 * [evaluation, loading, evaluation], worker.kinds()


def the_mode_may_change_at_any_time() -> None:
    worker = Worker(mode=OFF)
    worker.runs("""
def mode(value): os.pwrite(int(os.environ["RING"]), struct.pack("=I", value), 12)
for value in (0, 1, 0, 1, 99, 2):
    mode(value)
    for _ in range(3): ddp_page.heartbeat()
""")
    assert [number for _, number, _, _ in worker.kinds()] == [5, 6, 11, 12, 17, 18], worker.kinds()


def a_full_ring_drops_and_counts() -> None:
    worker = Worker()
    worker.sets(CLAIMED_AT, 10)
    worker.sets(TAKEN_AT, 10)
    worker.runs("for _ in range(4100): ddp_page.heartbeat()")
    assert worker.number(CLAIMED_AT) == 10 + RECORD_COUNT and worker.number(DROPPED_AT) == 3, worker.bytes()[:256]
    assert len(worker.records()) == RECORD_COUNT


def names_that_find_no_free_entry_are_left_out() -> None:
    worker = Worker()
    worker.runs("""
for i in range(300): ddp_page.phase("evaluation", "set %d" % i)
ddp_page.phase("training")
""")
    names = [name for _, _, _, name in worker.kinds()]
    assert names == [f"set {i}" for i in range(255)] + 45 * [""], names


def a_writer_that_holds_the_lock_keeps_it_out() -> None:
    worker = Worker()
    fcntl.lockf(worker.ring, fcntl.LOCK_EX)
    # The values and the page do not depend on the lock. The ring cannot be claimed while it is locked.
    worker.runs("for step in range(4): ddp_page.progress(step, loss=1)")
    assert worker.kinds() == [] and worker.number(WRITER_AT, "i") == 0
    fcntl.lockf(worker.ring, fcntl.LOCK_UN)
    worker = Worker()
    output = worker.runs("""
import fcntl, subprocess, sys
ddp_page.heartbeat()
ring = os.environ["RING"]
code = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX); print('held', flush=True); sys.stdin.readline()"
holder = subprocess.Popen([sys.executable, "-c", code, ring], pass_fds=[int(ring)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)
print(holder.stdout.readline().strip())
ddp_page.heartbeat()
holder.communicate("end")
ddp_page.heartbeat()
""")
    assert output == "held\n" and [number for _, number, _, _ in worker.kinds()] == [3], (output, worker.kinds())
    assert worker.number(DROPPED_AT) == 1


def two_processes_with_the_lock_lose_no_record() -> None:
    """The second process stands for ddp_torch_reader, which writes beside a Python program."""
    worker = Worker()
    output = worker.runs("""
ddp_page.heartbeat()
ring = ddp_page._page.ring
gate, opened = os.pipe()
def write(kind):
    os.read(gate, 1)
    for i in range(1500):
        while not ring.add(kind, 1 + i, 2 + i, i): pass
child = os.fork()
if child == 0:
    write(2)
    os._exit(0)
os.write(opened, b"xx")
write(3)
assert os.waitpid(child, 0)[1] == 0
""")
    assert output == ""
    kinds = [(kind, number) for kind, number, *_ in worker.kinds()]
    assert sorted(kinds) == [(kind, number) for kind in (2, 3) for number in range(1500)], len(kinds)


def no_record_of_threads_and_signal_handlers_is_mixed_up() -> None:
    worker = Worker()
    worker.runs("""
import signal, sys, threading
sys.setswitchinterval(1e-6)
signal.signal(signal.SIGALRM, lambda *_: ddp_page.phase("evaluation", "from a handler"))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
ddp_page.heartbeat()
def send_heartbeats():
    for _ in range(500): ddp_page.heartbeat()
threads = [threading.Thread(target=send_heartbeats) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for _ in range(500): ddp_page.heartbeat()
signal.setitimer(signal.ITIMER_REAL, 0)
""")
    steps = [number for kind, number, _, name in worker.kinds() if kind == STEP]
    names = {name for kind, _, _, name in worker.kinds() if kind == PHASE}
    assert len(set(steps)) == len(steps) and set(steps) <= set(range(2, 2502)) and len(steps) > 2000, len(steps)
    assert names <= {"", "from a handler"}, names  # a handler may interrupt a handler that writes the name


def a_signal_handler_that_comes_first_finds_whole_modules() -> None:
    """A handler may interrupt an import, and then sees a module without its functions."""
    worker = Worker()
    worker.runs("""
import sys
before = set(sys.modules)
ddp_page.heartbeat()
ddp_page.heartbeat()
with ddp_page.phase("evaluation"): pass
assert set(sys.modules) == before, set(sys.modules) - before
""")
    assert [kind for kind, *_ in worker.kinds()] == [STEP, PHASE], worker.kinds()


def children_write_nothing() -> None:
    worker = Worker()
    worker.runs("""
ddp_page.heartbeat()
child = os.fork()
if child == 0:
    for step in range(3):
        ddp_page.heartbeat()
        ddp_page.progress(step, loss=1)
        with ddp_page.phase("evaluation"): pass
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
    assert worker.kinds() == [] and worker.values() == [], (worker.kinds(), worker.values())


def the_ring_of_another_process_is_left_alone() -> None:
    code = "for step in range(3):\n  ddp_page.heartbeat()\n  ddp_page.progress(step, loss=1)\n"
    for fault in [Worker(magic=MAGIC + 1), Worker(version=VERSION + 1), Worker(size=BYTES - 1), Worker(said=BYTES - 1),
                  Worker(writer=os.getpid()), Worker(size=32)]:
        before = fault.bytes()
        fault.runs(code)
        assert fault.bytes() == before, before[:64]
        steps = struct.unpack_from("=Q", os.pread(fault.page, 8, 128 + 24))[0]
        assert steps == 3, "the page is written all the same"
    good = Worker()
    for variable in ["1000000", "x", "-1", f" {good.ring}", "0"]:
        good.runs(code, variable)
    assert good.number(WRITER_AT, "i") == 0
    # A larger ring of a later launcher is used.
    larger = Worker(size=2 * BYTES, said=2 * BYTES)
    larger.runs(code)
    assert len(larger.kinds()) == 2
    # The C++ runtime of the same process writes without the lock.
    runtime = Worker(worlds=1)
    runtime.runs(code)
    assert runtime.kinds() == [] and runtime.values() == [("loss", 1.0)], runtime.kinds()


def the_launchers_part_of_the_ring_is_not_written() -> None:
    worker = Worker()
    before = worker.bytes()
    worker.runs("for step in range(9): ddp_page.progress(step, loss=1)")
    assert worker.bytes()[:LAUNCHER_PART] == before[:LAUNCHER_PART] and worker.number(TAKEN_AT) == 0


def wrong_numbers_are_refused() -> None:
    Worker().runs("""
for numbers in [(-1, 0), (0, -1)]:
    try: ddp_page.progress(*numbers, loss=1)
    except ValueError: continue
    raise AssertionError(numbers)
for value in ["much", None]:
    try: ddp_page.progress(1, loss=value)
    except (TypeError, ValueError): continue
    raise AssertionError(value)
""")


def the_runtime_records_all_that_a_program_in_c_does() -> None:
    worker = Worker(mode=ALL)
    code = """
import ctypes
library = ctypes.CDLL(LIBRARY)
pointer = ctypes.c_void_p
def call(function, *arguments):
    status = getattr(library, function)(*arguments)
    assert status == 0, (function, status)
world, phase, values = pointer(), pointer(), (ctypes.c_float * 4)()
call("ddp_init", None, ctypes.byref(world))
for _ in range(2): call("ddp_all_reduce", world, values, ctypes.c_int64(4), 2, 0, None, None)
call("ddp_progress_begin", 5, b"validation set", ctypes.byref(phase))
call("ddp_progress_end", phase)
long = ctypes.c_int64
for step in range(3): call("ddp_progress_report", long(step), long(10))
names, losses = (ctypes.c_char_p * 2)(b"loss", b"a name of more than 23 bytes"), (ctypes.c_double * 2)(2.5, float("inf"))
call("ddp_progress_report_values", long(3), long(10), ctypes.c_size_t(2), names, losses)
for _ in range(3): call("ddp_progress_heartbeat")
if os.fork() == 0:
    call("ddp_progress_heartbeat")
    call("ddp_progress_report_values", long(4), long(10), ctypes.c_size_t(1), names, losses)
    os._exit(0)
assert os.wait()[1] == 0
""".replace("LIBRARY", repr(sys.argv[1]))
    worker.runs(code, DDP_BACKEND="cpu", DDP_QUIET="1")
    kinds = [record[:4] for record in worker.records(group=0, size=16) if record[0] != WAIT]
    assert [kind for kind in kinds if kind[0] == COLLECTIVE] == [(COLLECTIVE, 1, 0, ""), (COLLECTIVE, 2, 0, "")], kinds
    assert [kind for kind in kinds if kind[0] == STEP] == [(STEP, n, 0, "") for n in (1, 2, 3, 1, 2, 3)], kinds
    phases = [kind[2:] for kind in kinds if kind[0] == PHASE]
    assert phases[-1] == (5, "validation set") and phases[:-1] == sorted(phases[:-1]), kinds
    assert worker.values() == [("loss", 2.5), ("a name of more than 23 ", math.inf)], worker.values()


def main() -> None:
    for check in [progress_ends_steps_and_shows_values, heartbeats_are_the_steps_of_a_program_that_sends_them,
                  phases_other_than_training_are_recorded_when_they_end, the_mode_may_change_at_any_time,
                  a_full_ring_drops_and_counts, names_that_find_no_free_entry_are_left_out,
                  a_writer_that_holds_the_lock_keeps_it_out, two_processes_with_the_lock_lose_no_record,
                  no_record_of_threads_and_signal_handlers_is_mixed_up,
                  a_signal_handler_that_comes_first_finds_whole_modules, children_write_nothing,
                  the_ring_of_another_process_is_left_alone, the_launchers_part_of_the_ring_is_not_written,
                  wrong_numbers_are_refused, the_runtime_records_all_that_a_program_in_c_does]:
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    main()

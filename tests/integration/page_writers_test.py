#!/usr/bin/env python3
"""page_writers_test.py BIN_DIR: checks what bindings/c/ddp_page.h and bindings/python/ddp_page.py write on a
status page, byte by byte, and that they change nothing else. CC and CXX name the compilers of C and C++ (by default
cc, c++)."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1])
BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "bindings"
MAGIC, VERSION, BYTES = 0x50504444, 6, 153984
WORKER = struct.Struct("=IIQi4xQQ24x48s80s")
WORKER_AT, WRITER_AT, WORKER_END = 128, 28, 320

# Both programs obey the same words. After each "wait" they print a line, and continue when they read one.
C_PROGRAM = r"""
#include "ddp_page.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void meet(void) {
  char name[40];
  snprintf(name, sizeof name, "ready%s", getenv("RANK"));
  fclose(fopen(name, "w"));
  for (int rank = 0; rank < atoi(getenv("WORLD_SIZE")); ++rank) {
    snprintf(name, sizeof name, "ready%d", rank);
    while (access(name, F_OK) != 0) poll(NULL, 0, 10);
  }
}

int main(int count, char **words) {
  ddp_page *page = ddp_page_open();
  for (int i = 1; i < count; ++i) {
    const char *word = words[i];
    if (strcmp(word, "heartbeat") == 0) ddp_heartbeat(page);
    if (strcmp(word, "meet") == 0) meet();
    if (strcmp(word, "slow-heartbeats") == 0) {
      for (int n = 0; n < 20; ++n) {
        ddp_heartbeat(page);
        poll(NULL, 0, 200);
      }
    }
    if (strcmp(word, "train") == 0) DDP_PHASE(page, DDP_PHASE_TRAINING, "epoch 1"); /* the place */
    if (strcmp(word, "long-name") == 0) ddp_phase(page, DDP_PHASE_DONE, LONG_NAME, LONG_NAME, 7);
    if (strcmp(word, "extend") == 0) ddp_extend(page, 100.5);
    if (strcmp(word, "extend-less") == 0) ddp_extend(page, 1);
    if (strcmp(word, "extend-for-ever") == 0) ddp_extend(page, 1e300);
    if (strcmp(word, "fork") == 0) {
      const pid_t child = fork();
      if (child == 0) {
        ddp_heartbeat(page);
        ddp_extend(page, 1000);
        DDP_PHASE(page, DDP_PHASE_DONE, "child");
        _exit(ddp_page_open() == NULL ? 0 : 1);
      }
      int status = 0;
      if (waitpid(child, &status, 0) != child || status != 0) return 9;
    }
    if (strcmp(word, "sleep") == 0) poll(NULL, 0, 1000 * 1000);
    if (strcmp(word, "wait") == 0) {
      printf("waits\n");
      fflush(stdout);
      if (getchar() == EOF) return 8;
    }
  }
  return 0;
}
"""
PYTHON_PROGRAM = r"""
import os, select, sys, time
import ddp_page

for word in sys.argv[1:]:
    if word == "heartbeat": ddp_page.heartbeat()
    if word == "meet":
        open(f"ready{os.environ['RANK']}", "w").close()
        while not all(os.path.exists(f"ready{rank}") for rank in range(int(os.environ["WORLD_SIZE"]))): time.sleep(0.01)
    if word == "slow-heartbeats":
        for _ in range(20):
            ddp_page.heartbeat()
            time.sleep(0.2)
    if word == "train": ddp_page.phase("training", "epoch 1")  # the place
    if word == "long-name": exec(compile("ddp_page.phase('done', LONG_NAME)", LONG_NAME, "exec"))
    if word == "extend": ddp_page.extend(100.5)
    if word == "extend-less": ddp_page.extend(1)
    if word == "extend-for-ever": ddp_page.extend(1e300)
    if word == "fork":
        child = os.fork()
        if child == 0:
            ddp_page.heartbeat()
            ddp_page.extend(1000)
            with ddp_page.phase("done", "child"):
                pass
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0: sys.exit(9)
    if word == "sleep": select.select([], [], [], 1000)
    if word == "wait":
        print("waits", flush=True)
        if not sys.stdin.readline(): sys.exit(8)
"""
LONG_NAME = "".join(chr(ord("a") + i % 26) for i in range(200))


class Page:
    """Makes a status page as the launcher makes it, or with a fault."""

    def __init__(self, magic: int = MAGIC, version: int = VERSION, size: int = BYTES, writer: int = 0):
        self.fd = os.memfd_create("page")
        os.truncate(self.fd, size)
        os.pwrite(self.fd, struct.pack("=IIIiiiii", magic, version, size, 0, 0, 0, -1, writer), 0)

    def bytes(self) -> bytes:
        return os.pread(self.fd, 1 << 20, 0)

    def writer(self) -> int:
        return struct.unpack_from("=i", self.bytes(), WRITER_AT)[0]

    def worker(self) -> tuple:
        """Returns changes, phase, since, line, steps, more time until, name, file. Trailing zeros of the texts are
        removed."""
        *numbers, name, file = WORKER.unpack_from(self.bytes(), WORKER_AT)
        assert name.endswith(b"\0") and file.endswith(b"\0"), (name, file)
        return (*numbers, name.rstrip(b"\0").decode(), file.rstrip(b"\0").decode())


class Writer:
    """Runs a program that writes on pages."""

    def __init__(self, name: str, command: list, source: pathlib.Path):
        self.name, self.command, self.source = name, command, source
        lines = source.read_text().splitlines()
        self.place = next(i for i, line in enumerate(lines, 1) if "the place" in line)

    def starts(self, fd: int, *words: str) -> subprocess.Popen:
        return subprocess.Popen([*self.command, *words], pass_fds=[fd], env=environment(str(fd)), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def runs(self, fd: int, *words: str) -> int:
        """Runs the program to its end and returns its pid."""
        process = self.starts(fd, *words)
        process.communicate(timeout=60)
        assert process.returncode == 0, (self.name, words, process.returncode)
        return process.pid

    def runs_with(self, variable: str, *words: str, **options) -> None:
        subprocess.run([*self.command, *words], env=environment(variable), check=True, timeout=60, **options)


def environment(variable: str = "") -> dict:
    result = {key: value for key, value in os.environ.items() if key != "DDP_PAGE_FD"}
    result.update(PYTHONPATH=str(BINDINGS / "python"), PYTHONDONTWRITEBYTECODE="1")
    if variable:
        result["DDP_PAGE_FD"] = variable
    return result


def writers_in(folder: pathlib.Path) -> list:
    """Returns one writer per language. Also checks that the header compiles without a warning with every compiler
    that is installed."""
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{BINDINGS}/c", f'-DLONG_NAME="{LONG_NAME}"']
    result = []
    for language, standard, usual, others in [("c", "c11", os.environ.get("CC", "cc"), ["gcc", "clang"]),
                                              ("cpp", "c++17", os.environ.get("CXX", "c++"), ["g++", "clang++"])]:
        if shutil.which(usual) is None:
            print(f"there is no {usual}: nothing is tested in {standard}")
            continue
        source = folder / f"writer.{language}"
        source.write_text(C_PROGRAM)
        program = folder / f"writer_{language}"
        subprocess.run([usual, f"-std={standard}", "-O2", *strict, source, "-o", program], check=True)
        for other in filter(shutil.which, others):
            for level in ["-O0", "-O3"]:
                subprocess.run([other, f"-std={standard}", level, *strict, source, "-c", "-o", os.devnull], check=True)
        result.append(Writer(standard, [program], source))
    source = folder / "writer.py"
    source.write_text(f'LONG_NAME = "{LONG_NAME}"\n' + PYTHON_PROGRAM)
    return [*result, Writer("python", [sys.executable, source], source)]


def python(code: str, variable: str = "", **options) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=environment(variable), capture_output=True, text=True,
                          timeout=60, check=False, **options)
    assert done.returncode == 0, done
    return done.stdout


def values_are_written_where_the_protocol_says(writer: Writer) -> None:
    page = Page()
    before = time.monotonic_ns()
    pid = writer.runs(page.fd, "heartbeat", "train", "heartbeat", "extend", "extend-less", "heartbeat")
    after = time.monotonic_ns()
    changes, phase, since, line, steps, until, name, file = page.worker()
    assert page.writer() == pid, (page.writer(), pid)
    assert (changes, phase, line, steps) == (2, 4, writer.place, 3), page.worker()
    assert before <= since <= after and before <= until - 100_500_000_000 <= after, (page.worker(), before, after)
    assert name == "epoch 1" and file == str(writer.source)[-79:], page.worker()
    # The writer changes nothing else on the page.
    fresh = Page(writer=pid).bytes()
    data = page.bytes()
    assert data[:WORKER_AT] == fresh[:WORKER_AT] and data[WORKER_END:] == fresh[WORKER_END:]
    assert data[WORKER_AT + 20:WORKER_AT + 24] == bytes(4) and data[WORKER_AT + 40:WORKER_AT + 64] == bytes(24)


def a_long_name_is_cut_at_its_end_and_a_long_file_at_its_start(writer: Writer) -> None:
    page = Page()
    writer.runs(page.fd, "train", "long-name")
    changes, phase, _, _, _, _, name, file = page.worker()
    assert (changes, phase, name, file) == (4, 9, LONG_NAME[:47], LONG_NAME[-79:]), page.worker()


def an_endless_request_for_time_is_limited(writer: Writer) -> None:
    page = Page()
    writer.runs(page.fd, "extend-for-ever")
    assert 0 < page.worker()[5] - time.monotonic_ns() <= 1e18, page.worker()


def a_forked_child_does_not_write(writer: Writer) -> None:
    page = Page()
    pid = writer.runs(page.fd, "heartbeat", "train", "fork", "heartbeat")
    changes, phase, _, _, steps, until, name, _ = page.worker()
    assert (changes, phase, steps, until, name) == (2, 4, 2, 0, "epoch 1"), page.worker()
    assert page.writer() == pid


def the_page_of_another_process_is_left_alone(writer: Writer) -> None:
    words = ["heartbeat", "train", "extend", "fork"]
    for fault in [Page(magic=MAGIC + 1), Page(version=VERSION - 1), Page(version=VERSION + 1), Page(size=BYTES - 1),
                  Page(size=BYTES + 1), Page(size=2 * BYTES), Page(size=32), Page(writer=os.getpid())]:
        before = fault.bytes()
        writer.runs(fault.fd, *words)
        assert fault.bytes() == before, (writer.name, before[:64])
    reading, writing = os.pipe()
    for fd in (reading, writing):
        writer.runs(fd, *words)
    folder = os.open("/", os.O_RDONLY)
    writer.runs(folder, *words)
    good = Page()
    read_only = os.open(f"/proc/self/fd/{good.fd}", os.O_RDONLY)
    writer.runs(read_only, *words)
    closed = str(good.fd)  # the process does not inherit it
    for variable in ["", closed, "1000000", "x", "-1", f" {good.fd}", f"{good.fd} ", f"+{good.fd}", "9" * 30, "0",
                     "\u0663"]:
        inherited = [] if variable == closed else [good.fd]
        writer.runs_with(variable, *words, pass_fds=inherited, stdin=subprocess.DEVNULL)
    assert good.writer() == 0 and good.worker()[:6] == (0,) * 6, good.worker()


def of_two_processes_the_second_is_refused(first: Writer, second: Writer) -> None:
    page = Page()
    holder = first.starts(page.fd, "heartbeat", "wait", "heartbeat")
    assert holder.stdout.readline() == "waits\n"
    second.runs(page.fd, "heartbeat", "train", "extend", "fork")
    assert page.writer() == holder.pid and page.worker()[:6] == (0, 0, 0, 0, 1, 0), page.worker()
    holder.communicate("go\n", timeout=60)
    assert holder.returncode == 0 and page.worker()[4] == 2, page.worker()


def a_process_may_open_its_page_again_after_exec(writer: Writer) -> None:
    page = Page()
    code = "import ddp_page, os, sys; ddp_page.heartbeat(); os.execv(sys.argv[1], sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, *map(str, writer.command), "heartbeat"], pass_fds=[page.fd],
                   env=environment(str(page.fd)), check=True, timeout=60)
    assert page.worker()[4] == 2, page.worker()


def in_python_the_phase_before_comes_back() -> None:
    page = Page()
    # The page looks as if the C++ runtime had written on it in the same process.
    os.pwrite(page.fd, WORKER.pack(8, 4, 1, 55, 10, 0, b"epoch 3", b"train.cpp"), WORKER_AT)
    code = f"""
import os, struct, ddp_page
os.pwrite({page.fd}, struct.pack("=i", os.getpid()), {WRITER_AT})
def show():
    fields = struct.unpack("{WORKER.format}", os.pread({page.fd}, {WORKER.size}, {WORKER_AT}))
    texts = [text.rstrip(b"\\0").decode() for text in fields[6:]]
    print(fields[0], fields[1], fields[3], *texts, sep=",")
with ddp_page.phase("evaluation", "validation"):
    show()
    try:
        with ddp_page.phase("data_loading"):
            show()
            raise KeyError
    except KeyError:
        show()
show()
ddp_page.heartbeat()
"""
    lines = python(code, str(page.fd), pass_fds=[page.fd]).splitlines()
    assert lines == ["10,5,8,validation,<string>", "12,7,11,,<string>", "14,5,8,validation,<string>",
                     "16,4,55,epoch 3,train.cpp"], lines
    assert page.worker()[4] == 11, page.worker()


def in_python_no_heartbeat_of_any_thread_is_lost() -> None:
    page = Page()
    python("""
import ddp_page, signal, sys, threading
sys.setswitchinterval(1e-6)
signal.signal(signal.SIGALRM, lambda *_: ddp_page.phase("training"))  # amid anything
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def send_heartbeats():
    for _ in range(5000): ddp_page.heartbeat()
threads = [threading.Thread(target=send_heartbeats) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for _ in range(1000):
    with ddp_page.phase("evaluation"): pass
signal.setitimer(signal.ITIMER_REAL, 0)
""", str(page.fd), pass_fds=[page.fd])
    changes, _, _, _, steps, *_ = page.worker()
    assert steps == 20000 and changes % 2 == 0, page.worker()


def in_python_children_of_multiprocessing_do_not_write(folder: pathlib.Path) -> None:
    script = folder / "loader.py"
    script.write_text("""
import multiprocessing, sys
import ddp_page

def load(_):
    ddp_page.heartbeat()
    ddp_page.extend(1000)
    with ddp_page.phase("data_loading"): pass

if __name__ == "__main__":
    # The children are first: the page is the main program's even before it has used it.
    for method in ["fork", "spawn", "forkserver"]:
        with multiprocessing.get_context(method).Pool(2) as pool: pool.map(load, range(4))
    ddp_page.heartbeat()
    for method in ["fork", "spawn", "forkserver"]:
        with multiprocessing.get_context(method).Pool(2) as pool: pool.map(load, range(4))
""")
    page = Page()
    subprocess.run([sys.executable, script], pass_fds=[page.fd], env=environment(str(page.fd)), check=True,
                   timeout=120)
    assert page.worker()[:6] == (0, 0, 0, 0, 1, 0) and page.writer() != 0, page.worker()


def in_python_a_child_does_not_wait_for_a_lock_of_its_parent() -> None:
    page = Page()
    python("""
import ddp_page, os, signal, threading
ddp_page.heartbeat()
held = threading.Event()
def hold():
    with ddp_page._lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    ddp_page.heartbeat(); ddp_page.phase("done"); ddp_page.extend(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""", str(page.fd), pass_fds=[page.fd])
    assert page.worker()[:6] == (0, 0, 0, 0, 1, 0), page.worker()


def in_python_invalid_arguments_are_errors_with_and_without_a_page() -> None:
    page = Page()
    code = """
import ddp_page
def refuses(action, *words):
    try: action()
    except ValueError as error: assert all(word in str(error) for word in words), error
    else: raise AssertionError("it was taken")
for name in ["", "lunch", None, 4, "Training"]:
    refuses(lambda: ddp_page.phase(name), *ddp_page.PHASES)
for time in [-1, -0.001, float("nan"), float("inf"), -float("inf")]:
    refuses(lambda: ddp_page.extend(time), str(float(time)))
for steps in [-1, 1 << 64]:
    refuses(lambda: ddp_page.progress(steps), str(steps), "a number")
    refuses(lambda: ddp_page.progress(0, steps), str(steps), "a number")
for name in ddp_page.PHASES: ddp_page.phase(name)
ddp_page.extend(0)
ddp_page.phase("done", "\\udcff\\ud800" + 30 * "\\u4e2d")
"""
    python(code)
    python(code, str(page.fd), pass_fds=[page.fd])
    assert page.worker()[1] == 9 and page.worker()[6] == "??" + 15 * "\u4e2d", page.bytes()[:256]


def ddplaunch_understands_them(writers: list, folder: pathlib.Path) -> None:
    """The writers send heartbeats for longer than the limit. Then they are silent in a phase, and ddplaunch reports
    the phase and the place."""
    log = folder / "events"
    script = "case $RANK in " + " ".join(
        f'{rank}) exec {" ".join(map(str, writer.command))} meet slow-heartbeats train sleep ;;'
        for rank, writer in enumerate(writers)) + " esac"
    done = subprocess.run([BIN / "ddplaunch", f"--nproc-per-node={len(writers)}", "--hang-timeout=2",
                           f"--event-log={log}", "/bin/sh", "-c", script],
                          capture_output=True, text=True, timeout=120, env=environment(), check=False, cwd=folder)
    assert done.returncode == 124, done
    for rank, writer in enumerate(writers):
        place = re.escape(f"{writer.source.name}:{writer.place}")
        assert re.search(rf"rank {rank} \(pid \d+\): training 'epoch 1'.* at {place}", done.stderr), done.stderr
    news = [json.loads(line) for line in log.read_text().splitlines()]
    hung = next(event["stall"] for event in news if event["event"] == "hang" and event["state"] == "hung")
    assert hung["code"] == "DDP-H08" and [rank["steps"] for rank in hung["ranks"]] == [20] * len(writers), hung


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        writers = writers_in(folder)
        for check in [values_are_written_where_the_protocol_says,
                      a_long_name_is_cut_at_its_end_and_a_long_file_at_its_start,
                      an_endless_request_for_time_is_limited, a_forked_child_does_not_write,
                      the_page_of_another_process_is_left_alone, a_process_may_open_its_page_again_after_exec]:
            for writer in writers:
                check(writer)
            print(f"ok: {check.__name__.replace('_', ' ')}", flush=True)
        for first, second in zip(writers, writers[1:] + writers[:1]):
            of_two_processes_the_second_is_refused(first, second)
        print("ok: of two processes the second is refused")
        in_python_the_phase_before_comes_back()
        in_python_no_heartbeat_of_any_thread_is_lost()
        in_python_children_of_multiprocessing_do_not_write(folder)
        in_python_a_child_does_not_wait_for_a_lock_of_its_parent()
        in_python_invalid_arguments_are_errors_with_and_without_a_page()
        print("ok: Python", flush=True)
        ddplaunch_understands_them(writers, folder)
        print("ok: ddplaunch understands them")


if __name__ == "__main__":
    main()

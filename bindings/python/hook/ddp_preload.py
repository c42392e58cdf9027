"""Forks workers from an interpreter that has imported the modules of DDP_PRELOADER.

ddplaunch starts the preloader with the command of a worker. `sitecustomize` calls serve(), which returns in each forked
worker and nowhere else. The interpreter then goes on with its start. See
docs/development/decisions/0073-workers-are-forked-from-an-interpreter-that-has-imported.md.

The standard input is a socket of the launcher. If DDP_PRELOADER is empty, this process only says "hello" there. Otherwise
it answers once: "ready" and its pid, "unneeded", or "refused" and a reason. Each request comes with descriptors: a channel that only the new worker has, a file with what
the worker needs, and those that the worker keeps.
"""
import ctypes
import gc
import marshal
import os
import resource
import signal
import socket
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_PR_SET_PTRACER = 0x59616D61
_PROT_READ, _PROT_WRITE, _MAP_PRIVATE, _MAP_ANONYMOUS = 1, 2, 2, 32
_MPOL_PREFERRED = 1
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # numbers of the system call
_MOST_DESCRIPTORS = 16  # of one request
# The preloader imports these, and so a file of the program with such a name would be hidden.
_OWN_MODULES = ("array", "ctypes", "gc", "marshal", "math", "resource", "select", "selectors", "signal", "socket", "struct")
_HARMLESS_FILES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
# Begins of the names of variables that libraries in C and C++ read when they are loaded.
_READ_IN_C = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "DNNL_", "ONEDNN_", "TORCH", "PYTORCH_", "C10_",
              "ATEN_", "MALLOC_", "LD_", "NPY_")

_control = None  # the socket
_launcher = 0  # pid


def is_preloader():
    """Returns whether the launcher has started this process as its preloader. If it only asks for that, the process ends.

    A Python that another one has started has the same variables and the same standard input.
    """
    global _control, _launcher
    try:
        _control = socket.socket(fileno=os.dup(0))
        _launcher = int.from_bytes(_control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    except OSError:
        return False
    if not _is_child_of_launcher():
        _control.close()
        return False
    if not os.environ["DDP_PRELOADER"]:
        _end("hello")
    return True


def _is_child_of_launcher():
    parent = os.getppid()
    if parent == _launcher:
        return True
    with open(f"/proc/{parent}/stat") as file:
        name, _, fields = file.read().partition("(")[2].rpartition(")")
    if name != "uv" or int(fields.split()[1]) != _launcher:
        return False
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def serve():
    """Imports, and forks workers until the launcher ends. Returns in each worker."""
    try:
        _serve()
    except BaseException:  # whatever a module's signal handlers raise: the preloader must not run the program
        os._exit(1)


def _serve():
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(1, 2)
    environment = dict(os.environb)
    # A Python that a module starts is no preloader.
    names, unknown = (os.environ.pop(name).split(",") for name in ("DDP_PRELOADER", "DDP_PRELOADER_UNKNOWN"))
    try:
        before = _State()
        is_auto = names == ["auto"]
        program = _Program(["torch"] if is_auto else names)
        if is_auto and not program.imports_torch():
            _end("unneeded")
        _import(program, unknown)
        _check_that_workers_can_be_forked(before)
        gc.collect()
        gc.freeze()  # a collection in a worker does not write to objects that it shares
    except BaseException as error:  # also SystemExit: a module may end the program
        _refuse(f"{type(error).__name__}: {error}")
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGTERM})
    _control.send(b"ready %d" % os.getpid())
    while True:
        data, ancillary, _, _ = _control.recvmsg(64, socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4))
        if not data:
            os._exit(0)  # the launcher has ended
        descriptors = []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors += memoryview(content[: len(content) // 4 * 4]).cast("i").tolist()
        if _fork():
            _control.close()
            _become_worker(environment, unknown, before, descriptors)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _end(answer):
    try:
        _control.send(answer.encode(errors="backslashreplace")[:4000])
    finally:
        os._exit(0)


def _refuse(why):
    _end(f"refused {why}")


class _State:
    """What an import may change in this process, and what the workers would then share or lose."""

    def __init__(self):
        self.files = {}
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                self.files[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
            except OSError:  # the directory itself
                pass
        with open("/proc/self/maps") as maps:
            fields = [line.split(maxsplit=5) for line in maps]
        self.shared = {(line[0], line[5].strip() if len(line) > 5 else "memory") for line in fields if line[1] == "rw-s"}
        self.folder = os.getcwd()
        self.limits = {limit: resource.getrlimit(getattr(resource, "RLIMIT_" + limit)) for limit in ("NOFILE", "CORE")}


class _Program:
    """Manages a child process that reads the program. So what it needs for that is not in the workers."""

    def __init__(self, modules):
        self.modules = modules
        self.answer = None
        self.reader, writer = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                sys.path.insert(0, os.path.dirname(__file__))
                import ddp_preload_program

                os.write(writer, marshal.dumps(ddp_preload_program.inspect_program(_folder_of_program(), modules)))
            finally:
                os._exit(0)  # a program that cannot be read will show that itself
        os.close(writer)

    def result(self):
        if self.answer is None:
            with open(self.reader, "rb") as answer:
                self.answer = marshal.loads(answer.read() or marshal.dumps((False, [])))
            os.waitpid(self.child, 0)
        return self.answer

    def imports_torch(self):
        return self.result()[0]

    def sets_variables(self):
        return self.result()[1]


def _import(program, unknown):
    """Imports the modules as the program would."""
    before = list(sys.path)
    folder = _folder_of_program()
    if folder is not None:
        sys.path.insert(0, folder)
    usual = os.environ.__class__
    asked = {}

    class Environment(usual):
        """Notes who asks for variables."""

        def __getitem__(self, name):
            if name not in asked:
                asked[name] = _place_outside_of_python(sys._getframe(1))
                if name in unknown:  # what the module would do with a wrong answer must not be seen
                    _refuse(f"{asked[name]} reads {name} when it is imported")
            return super().__getitem__(name)

    main = sys.modules["__main__"]
    if os.path.isfile(sys.argv[0]):
        main.__file__ = os.path.abspath(sys.argv[0])  # as it will be, for modules that look for a program
    os.environ.__class__ = Environment
    try:
        for name in program.modules:
            __import__(name)
    finally:
        main.__dict__.pop("__file__", None)
        os.environ.__class__ = usual
        if sys.path[:1] == [folder]:
            del sys.path[0]
    if sys.path != before:
        _refuse("a module changes sys.path when it is imported")
    for name in unknown:
        if name in os.environ:
            _refuse(f"a module sets {name} when it is imported")
    for place, name in program.sets_variables():
        if not name:
            _refuse(f"{place} sets variables before the import")
        if name in asked or name.startswith(_READ_IN_C):
            _refuse(f"{place} sets {name} before the import, which reads it")


def _place_outside_of_python(frame):
    import _collections_abc

    own = (os.__file__, _collections_abc.__file__, os.__spec__.origin)
    while frame.f_back is not None and (frame.f_code.co_filename in own or frame.f_code.co_filename.startswith("<frozen ")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _folder_of_program():
    """Returns what Python will put in front of sys.path, or None."""
    if getattr(sys.flags, "safe_path", False):
        return None
    program = sys.argv[0]
    if program in ("-c", "-m", "-", ""):
        return os.getcwd() if program == "-m" else ""
    path = os.path.realpath(program)
    return path if os.path.isdir(path) else os.path.dirname(path)


def _check_that_workers_can_be_forked(before):
    after = _State()
    if sys.gettrace() is not None or sys.getprofile() is not None or "coverage" in sys.modules:
        _refuse("a tool measures this Python")
    # The workers would share its position, or a driver's state.
    for descriptor, path in after.files.items():
        if before.files.get(descriptor) != path and path not in _HARMLESS_FILES:
            _refuse(f"a module opens {path} when it is imported, and keeps it open")
    for _, path in after.shared - before.shared:
        _refuse(f"a module makes shared memory ({path}) when it is imported")
    if after.folder != before.folder:
        _refuse("a module changes the directory when it is imported")
    if signal.getitimer(signal.ITIMER_REAL)[0] or signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
        _refuse("a module starts a timer or handles SIGCHLD when it is imported")
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        if children.read():
            _refuse("a module starts a process when it is imported")
    folder = _folder_of_program() or ""
    for name in _OWN_MODULES:
        path = os.path.join(folder, name)
        if os.path.exists(path + ".py") or os.path.isdir(path):
            _refuse(f"{path} has the name of a module that the preloader needs")
    # Some pools of threads stop for a fork and start again when they are used.
    child = os.fork()
    if child == 0:
        os._exit(1 if _is_gpu_lost() else 0)
    if os.waitpid(child, 0)[1] != 0:
        _refuse("a module uses CUDA when it is imported")
    if len(os.listdir("/proc/self/task")) > 1:
        _refuse("a module starts threads when it is imported")


def _is_gpu_lost():
    """Returns whether PyTorch in this forked process refuses to use a GPU."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_in_bad_fork = getattr(cuda, "_is_in_bad_fork", lambda: False)
    return bool(is_in_bad_fork())


def _fork():
    """Forks a process that becomes a child of the launcher. Returns whether this is that process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # a module has replaced or closed it
            pass
    ctypes.CDLL(None).fflush(None)
    between = os.fork()
    if between != 0:
        os.waitpid(between, 0)
        return False
    try:
        if os.fork() != 0:
            os._exit(0)
    except OSError:
        os._exit(1)
    return True


def _become_worker(environment, unknown, before, descriptors):
    channel, file, *kept = descriptors
    try:
        values = _values_of(file)
        _set_up_process(values, before, kept)
        _set_up_interpreter(values, environment, unknown)
    except BaseException as error:
        _say(channel, f"failed {type(error).__name__}: {error}")
        os._exit(1)
    _say(channel, f"ready {os.getpid()}")
    if os.read(channel, 16) != b"go":
        os._exit(1)  # the launcher has started this worker in another way
    os.close(channel)


def _say(channel, text):
    try:
        os.write(channel, text.encode(errors="backslashreplace")[:4000])
    except OSError:
        os._exit(1)


def _values_of(file):
    """Reads the file of the request: a name, a count and that many texts, again and again, separated by zero bytes."""
    content = b""
    while True:
        part = os.read(file, 1 << 20)
        if not part:
            break
        content += part
    os.close(file)
    words = content.split(b"\0")
    values = {}
    at = 0
    while at + 1 < len(words):
        count = int(words[at + 1])
        values[words[at].decode()] = words[at + 2 : at + 2 + count]
        at += 2 + count
    return values


def _set_up_process(values, before, kept):
    """Does what the launcher does for a worker that it starts, in the same order. See WorkerSetup in spawn.cpp."""
    libc = ctypes.CDLL(None)
    while os.getppid() != _launcher:
        try:
            os.kill(_launcher, 0)
        except ProcessLookupError:
            os._exit(1)
        time.sleep(0.0005)  # the process in between exits now
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != _launcher:
        os._exit(1)
    os.setsid()
    libc.prctl(_PR_SET_PTRACER, ctypes.c_ulong(_launcher), 0, 0, 0)
    named = dict(zip((name.decode() for name in values["descriptors"]), kept))
    with open("/proc/self/oom_score_adj", "wb") as score:
        score.write(values["oom_score"][0])
    if "cgroup" in named:
        os.write(named["cgroup"], b"0")
        os.close(named.pop("cgroup"))
    for limit, usual in before.limits.items():
        kind = getattr(resource, "RLIMIT_" + limit)
        if resource.getrlimit(kind) == usual:  # otherwise, a module has set it
            resource.setrlimit(kind, tuple(int(number) for number in values[limit]))
    for number in values["ignored_signals"]:
        signal.signal(int(number), signal.SIG_IGN)
    if values["cpus"]:
        os.sched_setaffinity(0, [int(cpu) for cpu in values["cpus"]])
    if values["memory_nodes"] and os.uname().machine in _SET_MEMPOLICY:
        mask = (ctypes.c_ulong * 16)()
        for node in map(int, values["memory_nodes"]):
            mask[node // 64] |= 1 << node % 64
        libc.syscall(_SET_MEMPOLICY[os.uname().machine], _MPOL_PREFERRED, mask, 1024)
    for name, number in zip(("in", "out", "err"), range(3)):
        if name in named:
            os.dup2(named[name], number)
            os.close(named.pop(name))
    for name, descriptor in named.items():  # the page and the ring, named by their numbers
        os.dup2(descriptor, int(name))
        os.close(descriptor)


def _set_up_interpreter(values, environment, unknown):
    """`environment` is that with which the preloader was started: its own, or that of the wrapper that has started it."""
    for line in values["environment"]:
        name, _, value = line.partition(b"=")
        if os.fsdecode(name) in unknown:  # the others are as they were, or as a module has set them
            os.environb[name] = environment[name] = value
    names = [name for name in environment if name not in (b"DDP_PRELOADER", b"DDP_PRELOADER_UNKNOWN")]
    _show_environment([name + b"=" + environment[name] for name in sorted(names)])
    _seed()
    _set_up_streams(b"in" in values["descriptors"])
    main_thread = getattr(sys.modules.get("threading"), "main_thread", lambda: None)()
    if hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()  # Python does not always do so after a fork
    del sys.modules["ddp_preload"]


def _seed():
    """Seeds what its module has seeded from the system when it was imported. Python itself seeds `random` after a fork."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    if generator is not None:
        generator.seed()


def _show_environment(lines):
    """Lets /proc show the worker's environment. Kernels without checkpoints show that of the preloader."""
    class Map(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack", "arg_start",
            "arg_end", "env_start", "env_end", "auxv")] + [("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_uint32)]

    try:
        content = b"".join(line + b"\0" for line in lines)
        libc = ctypes.CDLL(None)
        libc.sbrk.restype = libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        begin = libc.mmap(None, len(content) + 1, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0)
        ctypes.memmove(begin, content, len(content))
        with open("/proc/self/stat", "rb") as file:
            stat = file.read().rpartition(b")")[2].split()
        field = lambda number: int(stat[number - 3])  # as proc(5) counts them
        shown = Map(field(26), field(27), field(45), field(46), field(47), libc.sbrk(0), field(28), field(48), field(49),
                    begin, begin + len(content), 0, 0, 0xFFFFFFFF)
        libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(shown), ctypes.c_ulong(ctypes.sizeof(shown)), 0)
    except Exception:
        pass


def _set_up_streams(has_input):
    """Python has made its streams for those of the preloader: never a terminal, and a socket."""
    output = sys.__stdout__
    if output is not None and not getattr(output, "write_through", True):
        output.reconfigure(line_buffering=os.isatty(1))
    if has_input and sys.stdin is not None and sys.stdin is sys.__stdin__:
        import io

        raw = io.FileIO(0, "r", closefd=False)
        raw.name = "<stdin>"
        usual = sys.stdin
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw), usual.encoding, usual.errors, "\n",
                                                      write_through=getattr(usual, "write_through", False))
        sys.stdin.mode = "r"

"""Writes what a program can see of its own process to the file argv[1] + RANK, as JSON. preload_test.py compares it."""
import _collections_abc
import codecs
import faulthandler
import gc
import inspect
import io
import json
import locale
import os
import pickle
import random
import resource
import signal
import site
import sys
import tempfile
import threading
import time
import warnings

import torch


class Pickled:
    pass


def own(name):
    with open(f"/proc/self/{name}", "rb") as file:
        return file.read()


def field(name, line):
    return next(row for row in own(name).decode().splitlines() if row.startswith(line))


def of_stream(stream, number):
    return [type(stream).__name__, stream.encoding, stream.errors, stream.name, stream.fileno(), stream.isatty(),
            stream.line_buffering, getattr(stream, "write_through", None), stream.newlines,
            type(stream.buffer).__name__, type(getattr(stream.buffer, "raw", None)).__name__,
            os.get_inheritable(number), getattr(stream, "mode", None)]


def descriptors():
    """Returns the kinds of the open descriptors: the page and the ring have high numbers."""
    kinds = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # that of the listing
        kinds[name] = path.partition(":")[0] if ":" in path else path
    return {name: kind for name, kind in kinds.items() if not kind.endswith("/fd")}


def in_thread():
    result = []
    thread = threading.Thread(target=lambda: result.append(threading.current_thread() is threading.main_thread()))
    thread.start()
    thread.join()
    return result


def in_child():
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def raised():
    try:
        raise KeyError(1)
    except KeyError as error:
        return [error.__traceback__.tb_frame.f_code.co_name, error.__traceback__.tb_next is None]


PROPERTIES = {
    "cmdline": lambda: own("cmdline").decode(),
    "environ of /proc": lambda: sorted(line for line in own("environ").decode().split("\0") if "DDP_" not in line),
    "comm": lambda: own("comm").decode(),
    "exe": lambda: os.readlink("/proc/self/exe"),
    "cwd": os.getcwd,
    "root": lambda: os.readlink("/proc/self/root"),
    "is a session leader": lambda: os.getsid(0) == os.getpid(),
    "leads its group": lambda: os.getpgid(0) == os.getpid(),
    "parent": lambda: own(f"../{os.getppid()}/comm").decode(),
    "terminal": lambda: own("stat").rpartition(b")")[2].split()[4].decode(),
    "nice": lambda: os.nice(0),
    "scheduler": lambda: os.sched_getscheduler(0),
    "affinity": lambda: sorted(os.sched_getaffinity(0)),
    "memory nodes": lambda: field("status", "Mems_allowed_list"),
    "memory policy": lambda: own("numa_maps").split(b"\n")[0].split()[1].decode() if os.path.exists("/proc/self/numa_maps") else "",
    "oom score": lambda: own("oom_score_adj").decode(),
    "cgroup": lambda: own("cgroup").decode(),
    "limits": lambda: own("limits").decode(),
    "namespaces": lambda: sorted((name, os.readlink(f"/proc/self/ns/{name}")) for name in os.listdir("/proc/self/ns")),
    "users": lambda: [os.getresuid(), os.getresgid(), sorted(os.getgroups())],
    "capabilities": lambda: [field("status", name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")],
    "seccomp": lambda: field("status", "Seccomp"),
    "umask": lambda: field("status", "Umask"),
    "core pattern": lambda: own("coredump_filter").decode(),
    "personality": lambda: own("personality").decode(),
    "timer slack": lambda: own("timerslack_ns").decode(),
    "ignored signals": lambda: field("status", "SigIgn"),
    "caught signals": lambda: field("status", "SigCgt"),
    "blocked signals": lambda: field("status", "SigBlk"),
    "pending signals": lambda: field("status", "ShdPnd"),
    "handlers": lambda: {number.name: str(signal.getsignal(number)).partition(" at ")[0] for number in signal.Signals},
    "wakeup descriptor": lambda: signal.set_wakeup_fd(-1),
    "interval timer": lambda: signal.getitimer(signal.ITIMER_REAL),
    "descriptors": descriptors,
    "threads": lambda: len(os.listdir("/proc/self/task")),
    "children": lambda: own(f"task/{os.getpid()}/children").decode(),
    "dumpable": lambda: os.stat("/proc/self").st_uid,
    "age is small": lambda: time.process_time() < 60,
    "environment": lambda: sorted(f"{name}={value}" for name, value in os.environ.items()),
    "os.environb": lambda: len(os.environb) == len(os.environ),
    "environment of a child": lambda: sorted(os.popen("env").read().splitlines()),
    "kind of os.environ": lambda: os.environ.__class__.__module__ + os.environ.__class__.__name__,
    "sys.argv": lambda: sys.argv,
    "sys.orig_argv": lambda: getattr(sys, "orig_argv", None),
    "sys.path": lambda: sys.path,
    "sys.flags": lambda: str(sys.flags),
    "sys._xoptions": lambda: sys._xoptions,
    "sys.warnoptions": lambda: sys.warnoptions,
    "warnings.filters": lambda: [str(entry) for entry in warnings.filters],
    "sys.executable": lambda: sys.executable,
    "sys.prefix": lambda: [sys.prefix, sys.exec_prefix, sys.base_prefix],
    "sys.meta_path": lambda: [str(getattr(finder, "__name__", type(finder).__name__)) for finder in sys.meta_path],
    "sys.path_hooks": lambda: len(sys.path_hooks),
    "sys.excepthook": lambda: sys.excepthook is sys.__excepthook__,
    "sys.displayhook": lambda: sys.displayhook is sys.__displayhook__,
    "sys.getrecursionlimit": sys.getrecursionlimit,
    "sys.getswitchinterval": sys.getswitchinterval,
    "sys.gettrace": lambda: [sys.gettrace(), sys.getprofile()],
    "sys.dont_write_bytecode": lambda: [sys.dont_write_bytecode, sys.pycache_prefix],
    "sys.hash_info": lambda: str(sys.hash_info),
    "is random hash": lambda: sys.flags.hash_randomization,
    "sys.stdin": lambda: of_stream(sys.stdin, 0),
    "sys.stdout": lambda: of_stream(sys.stdout, 1),
    "sys.stderr": lambda: of_stream(sys.stderr, 2),
    "encodings": lambda: [sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getdefaultencoding()],
    "locale": lambda: [locale.setlocale(locale.LC_ALL, None), locale.getpreferredencoding()],
    "time zone": lambda: [time.tzname, time.timezone],
    "names of __main__": lambda: [name for name in sys.modules["__main__"].__dict__ if name.startswith("__") and
                                 name != "__warningregistry__"],
    "__main__": lambda: [__name__, __file__, str(__spec__), __package__, type(__loader__).__name__, __doc__[:20], __builtins__.__name__],
    "pickle of a class of __main__": lambda: pickle.dumps(Pickled()).hex(),
    "depth of the stack": lambda: len(inspect.stack()),
    "traceback": raised,
    "modules": lambda: sorted(name for name in sys.modules),
    "loader of torch": lambda: [type(torch.__spec__.loader).__name__, torch.__file__],
    "main thread": lambda: [threading.current_thread() is threading.main_thread(), threading.main_thread().name,
                            threading.get_native_id() == os.getpid(), threading.active_count()],
    "native ID of the main thread": lambda: threading.main_thread().native_id == os.getpid(),
    "standard input can be searched": lambda: sys.stdin.seekable(),
    "thread": in_thread,
    "exit code of a forked child": in_child,
    "faulthandler": faulthandler.is_enabled,
    "gc": lambda: [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
    "frozen objects": lambda: gc.get_freeze_count() > 0,
    "site": lambda: [site.ENABLE_USER_SITE, sorted(site.PREFIXES)],
    "sitecustomize": lambda: getattr(sys.modules.get("sitecustomize"), "__file__", None),
    "temporary directory": tempfile.gettempdir,
    "resource usage": lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw < 1000,
    "codecs": lambda: codecs.lookup("utf-8").name,
    "size of a buffer": lambda: io.DEFAULT_BUFFER_SIZE,
    "abstract classes": lambda: len(_collections_abc.__all__),
    "random state differs": lambda: random.getrandbits(64),
    "threads of torch": lambda: [torch.get_num_threads(), torch.get_num_interop_threads()],
    "seed of torch": lambda: [torch.initial_seed(), torch.rand(3).tolist()],
    "default type of torch": lambda: [str(torch.get_default_dtype()), torch.is_grad_enabled(), torch.is_anomaly_enabled()],
    "determinism of torch": lambda: torch.are_deterministic_algorithms_enabled(),
    "CUDA can be used": lambda: torch.cuda._is_in_bad_fork() if hasattr(torch.cuda, "_is_in_bad_fork") else False,
    "parallel torch": lambda: float(torch.ones(1 << 20).sum()),
    "numpy random state differs": lambda: int(__import__("numpy").random.randint(1 << 30)),
}


def value(function):
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


with open(sys.argv[1] + os.environ["RANK"], "w") as output:
    json.dump({name: value(function) for name, function in PROPERTIES.items()}, output, default=str)

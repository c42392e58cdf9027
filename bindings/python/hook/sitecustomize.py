"""Shows ddplaunch what PyTorch's process groups of this process are doing, without a change to the program.

ddplaunch puts the directory of this file into PYTHONPATH of its workers, so that each Python runs it at its start. When
a program creates its first process group, this file starts PyTorch's own server for its flight recorders, on a Unix
socket of the job. It writes the groups into a file beside the socket. If such a program does not catch an exception,
this file writes it to the error file as soon as it is raised, because the process may end much later. Nothing else is
done: a Python that creates no process group runs the program as it would without this file. DDP_TORCH=0 in the
environment of ddplaunch disables it.

It works with all versions of Python 3 and needs only the standard library. No error of it reaches the program.
"""
import importlib.machinery
import os
import sys

_MODULE = "torch.distributed.distributed_c10d"
# The recorders for the collectives of Gloo and of NCCL, and functions that exist if this PyTorch has them.
_RECORDERS = [("gloo", "_dump_fr_trace_json"), ("nccl", "_dump_nccl_trace_json")]
_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _without_folder(paths):
    return [path for path in paths if os.path.abspath(path or os.curdir) != _FOLDER]


class _Finder:
    """Finds PyTorch's module of process groups once, like the other finders, and observes it after it has run."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(cls)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                break
        else:
            return None
        try:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                try:
                    _observe(module)
                except Exception:  # a PyTorch version that this file does not know
                    pass

            spec.loader.exec_module = exec_module
        except Exception:  # an unknown kind of loader: the program runs unobserved
            pass
        return spec


def _has_buffer():
    """Returns whether PyTorch keeps records. Before 2.6 it does so only if one of these variables is set."""
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        if name in os.environ:
            return os.environ[name].strip() != "0"
    version = getattr(sys.modules["torch"], "__version__", "").split(".")
    return not (version[0] == "2" and version[1].isdigit() and int(version[1]) < 6)


def _observe(module):
    import functools
    import inspect

    make = module._new_process_group_helper
    signature = inspect.signature(make)
    observer = _Observer()

    @functools.wraps(make)
    def make_and_show(*args, **kwargs):
        result = make(*args, **kwargs)
        try:
            observer.made(signature.bind(*args, **kwargs).arguments)
        except Exception:  # the program runs unobserved
            pass
        return result

    module._new_process_group_helper = make_and_show


class _Observer:
    """Observes this process. Only the first process of a worker that creates a process group is observed."""

    def __init__(self):
        self.file = os.environ["DDP_TORCH_FILE"]
        self.pid = None  # pid of the process that began; a forked child has another one
        self.server = None

    def made(self, group):
        if self.pid is None:
            self.begin()
        if self.pid == os.getpid() and self.server is not None:
            self.write(group)

    def begin(self):
        self.pid = os.getpid()
        # Child processes, such as the workers of a data loader, run as without this file.
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(_without_folder(paths))
        if not os.environ["PYTHONPATH"]:
            del os.environ["PYTHONPATH"]
        self.watch_errors()
        import atexit
        import ctypes

        from torch._C import _distributed_c10d

        # Only the process that creates the file is observed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        recorders = [name for name, function in _RECORDERS if hasattr(_distributed_c10d, function)]
        if not recorders or not hasattr(_distributed_c10d, "_WorkerServer") or not _has_buffer():
            # This PyTorch records nothing. ddplaunch reads this process's stacks instead.
            os.close(os.open(self.file + ".unrecorded", flags, 0o600))
            return
        self.descriptor = os.open(self.file + ".groups", flags, 0o600)
        with _Quiet():
            self.server = _distributed_c10d._WorkerServer(self.file + ".sock")
        # The server is shut down at exit and never destroyed. In a forked child, its destruction would wait for a
        # thread that only the parent has.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.server))
        atexit.register(self.end)
        self.append({"pid": self.pid, "recorders": recorders})

    def end(self):
        # PyTorch's shutdown() waits for ever for a server whose thread has not begun to serve.
        if self.pid == os.getpid() and self.serves():
            with _Quiet():
                self.server.shutdown()

    def serves(self):
        """Returns whether the server answers within a second."""
        import socket

        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(self.file + ".sock")
                connection.sendall(b"POST /handler/ping HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return connection.recv(1) != b""
        except OSError:
            return False

    def watch_errors(self):
        show = sys.excepthook

        def record_and_show(kind, error, trace):
            try:
                if self.pid == os.getpid() and kind is not KeyboardInterrupt:
                    self.record(kind, error, trace)
            except Exception:  # for example if the directory does not exist
                pass
            show(kind, error, trace)

        sys.excepthook = record_and_show

    def record(self, kind, error, trace):
        """Writes the error file as PyTorch's own `record` does. If `record` wrote the file before, that file stays."""
        import json
        import time
        import traceback

        stack = "".join(traceback.format_exception(kind, error, trace))
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        text = json.dumps({"message": {"message": f"{kind.__name__}: {error}", "extraInfo": extra}})
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(os.environ["TORCHELASTIC_ERROR_FILE"], flags, 0o600)
        try:
            os.write(descriptor, text.encode(errors="backslashreplace"))
        finally:
            os.close(descriptor)

    def write(self, group):
        import time

        rank, size = group.get("group_rank"), group.get("group_size")
        if not isinstance(rank, int) or rank < 0:
            return
        description = group.get("group_desc") or ""
        self.append({
            "name": str(group["group_name"]),
            "description": "" if description in ("undefined", "default_pg") else str(description),
            "rank": rank,
            "size": size,
            "ranks": [int(rank) for rank in group["global_ranks_in_group"]],
            "made_at": time.time_ns(),
            "backend": str(group.get("backend") or "").lower(),
        })

    def append(self, line):
        import json

        os.write(self.descriptor, (json.dumps(line) + "\n").encode())


class _Quiet:
    """Suppresses warnings of PyTorch's C++ code in a `with` block, because the start of the server logs a warning."""

    def __enter__(self):
        import ctypes

        self.level = None
        try:
            self.level = ctypes.c_int.in_dll(ctypes.CDLL("libc10.so"), "FLAGS_caffe2_log_level")
            self.before, self.level.value = self.level.value, 2
        except Exception:  # the library has no such variable: the warning is printed
            pass

    def __exit__(self, *error):
        if self.level is not None:
            self.level.value = self.before


def _run_hidden_one():
    """Runs the sitecustomize of the user or the system, which this file hides."""
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _without_folder(sys.path))
    if spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("DDP_TORCH_FILE"):
    sys.meta_path.insert(0, _Finder)
sys.path[:] = _without_folder(sys.path)
_run_hidden_one()

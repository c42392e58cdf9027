"""Shows ddplaunch what PyTorch's process groups of this process are doing, without a change to the program.

ddplaunch puts the directory of this file into PYTHONPATH of its workers, so that each Python runs it at its start. When
a program creates its first process group, this file starts PyTorch's own server for its flight recorders, on a Unix
socket of the job. It writes the groups into a file beside the socket, and at the end of the program the last answers
of that server. If such a program does not catch an exception, this file writes it to the error file as soon as it is
raised, because the process may end much later. The same holds for an exception because of which it destroys a group.
If it crashes, ddplaunch gets its stacks. Nothing else is done: a Python that creates no process group runs the program
as it would without this file. DDP_TORCH=0 in the environment of ddplaunch disables it.

It works with all versions of Python 3 and needs only the standard library. No error of it reaches the program. An error
of it is written to a file, and ddplaunch prints it. At the end of the process it waits for at most _LONGEST_QUESTIONS
and _LONGEST_REQUEST seconds, and it never waits for a thread. Upon a fatal signal the process waits for the reader,
which the launcher ends if it does not read.
"""
import importlib.machinery
import os
import sys

_LONGEST_QUESTIONS = 1  # seconds, for all last answers
_LONGEST_REQUEST = 2  # seconds; the reader gives up a request after that time
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, for which Python has had a name since 3.10
_MODULE = "torch.distributed.distributed_c10d"
# The recorders for the collectives of Gloo and of NCCL, and functions that exist if this PyTorch has them.
_RECORDERS = [("gloo", "_dump_fr_trace_json"), ("nccl", "_dump_nccl_trace_json")]
# What PyTorch's server answers of each of them: for NCCL without the calls, which are on a GPU.
_HANDLERS = {"gloo": "fr_trace_json", "nccl": "dump_nccl_trace_json?includecollectives=false"}
_FOLDER = os.path.dirname(__file__)
_observer = None
_call_times = None  # the library that notes when collectives begin and end


def _without_folder(paths):
    # The current directory may not exist, so paths are not made absolute.
    return [path for path in paths if os.path.normpath(path) != os.path.normpath(_FOLDER)]


def _create(path, text=""):
    """Creates a file. Raises FileExistsError if another process has created it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, text.encode(errors="backslashreplace"))
    finally:
        os.close(descriptor)


def _report(error):
    """Reports to ddplaunch, once per worker, that its collectives cannot be observed."""
    reason = f"{type(error).__name__}: {error}"
    try:
        _create(os.environ["DDP_TORCH_FILE"] + ".failed", reason)
    except FileExistsError:
        pass
    except Exception:  # there is no other place than the program's own output
        try:
            os.write(2, f"ddplaunch: warning: cannot observe the collectives of this process ({reason})\n".encode())
        except OSError:
            pass


class _Finder:
    """Finds PyTorch's module of process groups, like the other finders, and observes it after it has run."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "torch":
            _load_call_times()
        if name != _MODULE:
            return None
        for finder in sys.meta_path:
            # A program may only look for the module, and import it later.
            spec = finder.find_spec(name, path, target) if finder is not cls and hasattr(finder, "find_spec") else None
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
                except Exception as error:  # a PyTorch version that this file does not know
                    _report(error)

            spec.loader.exec_module = exec_module
        except Exception as error:  # an unknown kind of loader: the program runs unobserved
            _report(error)
        return spec


def _load_call_times():
    """Loads the library that stands for two of PyTorch's functions. After PyTorch is loaded, it would not be called."""
    global _call_times
    try:
        import ctypes

        if _call_times is None:
            _call_times = ctypes.CDLL(os.path.join(_FOLDER, "ddp_call_times.so"), ctypes.RTLD_GLOBAL)
    except Exception:  # this Python cannot load it: the views show no collectives
        pass


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

    global _observer
    make = module._new_process_group_helper
    signature = inspect.signature(make)
    observer = _observer = _Observer()

    @functools.wraps(make)
    def make_and_show(*args, **kwargs):
        result = make(*args, **kwargs)
        try:
            observer.made(signature.bind(*args, **kwargs).arguments)
        except Exception as error:  # the program runs unobserved
            _report(error)
        return result

    module._new_process_group_helper = make_and_show
    destroy = module.destroy_process_group

    @functools.wraps(destroy)
    def note_and_destroy(*args, **kwargs):
        try:
            observer.leaves()
        except Exception:  # for example a full disk: the report does not show this exception
            pass
        return destroy(*args, **kwargs)

    module.destroy_process_group = note_and_destroy


class _Observer:
    """Observes this process. Only the first process of a worker that creates a process group is observed."""

    def __init__(self):
        self.file = None
        self.pid = None  # pid of the process that began; a forked child has another one
        self.server = None  # PyTorch's server, if this process is observed
        self.recorders = []  # those of this PyTorch
        self.backends = set()  # of the groups, as PyTorch writes them
        self.captures = {}  # of CUDA graphs that are in progress: the descriptor that holds a lock, by graph
        self.has_left = False  # it destroyed a group because of an exception, and has made no other one

    def made(self, group):
        if self.pid is None:
            self.begin()
        if self.pid != os.getpid():
            return
        if self.has_left:
            self.returns()
        if self.server is not None:
            self.write(group)

    def begin(self):
        self.pid = os.getpid()
        self.file = os.environ["DDP_TORCH_FILE"]
        # Child processes, such as the workers of a data loader, run as without this file.
        paths = _without_folder(os.environ.get("PYTHONPATH", "").split(os.pathsep))
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        if not os.environ["PYTHONPATH"]:
            del os.environ["PYTHONPATH"]
        self.watch_errors()
        try:
            self.serve()
        except FileExistsError:  # another process of this worker is observed
            pass
        except Exception as error:
            self.is_not_recorded()
            _report(error)

    def is_not_recorded(self):
        """Lets ddplaunch read this process's stacks instead."""
        try:
            _create(self.file + ".unrecorded")
        except OSError:
            pass

    def serve(self):
        from torch._C import _distributed_c10d

        # Only the process that creates the file is observed.
        recorders = [name for name, function in _RECORDERS if hasattr(_distributed_c10d, function)]
        if not recorders or not hasattr(_distributed_c10d, "_WorkerServer") or not _has_buffer():
            return self.is_not_recorded()  # this PyTorch records nothing
        _create(self.file + ".groups")
        try:
            with _Quiet():
                server = _without_signals(_distributed_c10d._WorkerServer, self.file + ".sock")
            # The server is never shut down and never destroyed. Either would wait for its threads, which a forked child
            # does not have, which may not have begun, and which may wait for a client.
            _keep(server)
            self.recorders = recorders
            times = _call_times.ddp_call_times_open() if _call_times is not None else -1
            self.append({"pid": self.pid, "recorders": recorders, "times": times})
        except Exception:
            os.unlink(self.file + ".groups")
            raise
        self.server = server
        try:
            self.count_steps()
        except Exception:  # a PyTorch version that this file does not know: the views show no steps
            pass
        if "nccl" in recorders:
            self.watch_captures()
        self.watch_crashes()

    def count_steps(self):
        """Shows how many steps the optimizers have done.

        A program may have one optimizer per model, or per parameter. A step ends with the first of them, and the others
        belong to the same step. The next step has ended when one of them steps again.
        """
        is_compiling = getattr(getattr(sys.modules["torch"], "compiler", None), "is_compiling", None)
        register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
        if is_compiling is None or register is None:
            return  # this PyTorch is too old
        from ddp_page import _show_optimizer_steps

        done = set()  # optimizers of this step
        steps = 0
        is_known = True  # a graph may repeat steps that Python does not see

        def count(optimizer, *_):
            nonlocal steps, is_known
            if is_compiling() or self.pid != os.getpid() or not is_known:
                return
            number = id(optimizer)
            if done and number not in done:
                done.add(number)
                return
            done.clear()
            done.add(number)
            steps += 1
            try:
                is_known = not self.captures
                _show_optimizer_steps(steps if is_known else 0)
            except Exception:  # for example if the program has closed the page: the views show no more steps
                is_known = False

        register(count)

    def watch_crashes(self):
        """Lets the reader see the last calls and the stacks of this process when it gets a signal such as SIGABRT.

        Python's faulthandler then writes the stacks to a pipe of the reader. The pipe has room for the first words
        only, so the process does not end before the reader has asked PyTorch's server and has read the rest.
        """
        try:
            import faulthandler
            import fcntl
            import resource

            if faulthandler.is_enabled() or _catches_crashes():
                return  # the program shows its stacks itself, or needs these signals, as a virtual machine does
            # Without a reader, this fails.
            pipe = os.open(self.file + ".crash", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                # Each write fills a page, of which the pipe has one, and the next write waits for the reader.
                fcntl.fcntl(pipe, _SET_PIPE_SIZE, 1)
                fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)
                # If a program closes all descriptors, it is unlikely to get this number again.
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                number = 1000 if limit == resource.RLIM_INFINITY else max(min(limit, 1024) - 24, 3)
                kept = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, number)
            finally:
                os.close(pipe)
            faulthandler.enable(kept)
        except Exception:  # this Python has no faulthandler, or no reader runs: a crash has no stack then
            pass

    def watch_captures(self):
        """Prevents that the calls of NCCL are asked for while the program captures a CUDA graph.

        The answer queries the GPU, which would spoil a capture. The reader holds a lock on a file during the request. A
        capture holds it for its own duration.
        """
        import functools
        import threading

        _create(self.file + ".captures")
        kind = getattr(getattr(sys.modules["torch"], "cuda", None), "CUDAGraph", None)
        if not hasattr(kind, "capture_begin") or not hasattr(kind, "capture_end"):
            return  # this PyTorch cannot capture
        begin, end = kind.capture_begin, kind.capture_end
        captures = self.captures
        guard = threading.Lock()

        @functools.wraps(begin)
        def capture_begin(graph, *args, **kwargs):
            descriptor = self.lock(".captures", shared=True) if self.pid == os.getpid() else None
            try:
                result = begin(graph, *args, **kwargs)
            except BaseException:
                _unlock(descriptor)
                raise
            with guard:
                _unlock(captures.pop(id(graph), None))
                captures[id(graph)] = descriptor
            return result

        @functools.wraps(end)
        def capture_end(graph, *args, **kwargs):
            try:
                return end(graph, *args, **kwargs)
            finally:
                with guard:
                    descriptor = captures.pop(id(graph), None)
                _unlock(descriptor)

        kind.capture_begin, kind.capture_end = capture_begin, capture_end

    def end(self):
        """Keeps the last answers, lets the reader's last request end, and prevents another one.

        While a process ends, PyTorch destroys what its server needs for an answer. The reader holds a lock on the file
        during a request. This process holds it from now on.
        """
        if self.server is None or self.pid != os.getpid():
            return
        import time

        try:
            self.keep_last(time.monotonic() + _LONGEST_QUESTIONS)
        except Exception:  # for example a full disk: ddplaunch does not know what the program did last
            pass
        try:
            os.unlink(self.file + ".sock")
        except OSError:  # the file is gone, so nothing can be asked
            pass
        self.lock(".groups")

    def lock(self, ending, shared=False):
        """Waits for a request of the reader, and prevents others as long as the returned descriptor is open."""
        import fcntl
        import time

        until = time.monotonic() + _LONGEST_REQUEST
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            descriptor = os.open(self.file + ending, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the files are gone, so nothing can be asked
            return None
        while time.monotonic() < until:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.002)
            except OSError:  # the file system has no locks
                break
        return descriptor

    def keep_last(self, until):
        """Writes what the recorders hold to files, and then that these are complete.

        After its end, a program that is known to have left out a collective can be told from one that has done its
        part.
        """
        is_unknown = any("gloo" not in backend and "nccl" not in backend for backend in self.backends)
        for recorder in self.recorders:
            if not is_unknown and not any(recorder in backend for backend in self.backends):
                continue
            answer = self.ask(_HANDLERS[recorder], until)
            if recorder == "nccl":
                answer = self.with_calls_of_nccl(answer, until)
            if not answer.startswith(b"HTTP/1.1 200"):
                return
            with open(self.file + "." + recorder, "xb") as file:
                file.write(answer.partition(b"\r\n\r\n")[2])
        self.append({"ended": True})

    def with_calls_of_nccl(self, answer, until):
        """Returns the answer with the calls, if none is in progress.

        To list one that is would query the GPU. A thread of PyTorch notices the end of calls, which takes a moment.
        """
        import json
        import time

        half = time.monotonic() + (until - time.monotonic()) / 2
        while time.monotonic() < half:
            statuses = json.loads(answer.partition(b"\r\n\r\n")[2] or b"{}").get("pg_status", {}).values()
            if all(one.get("last_enqueued_collective") == one.get("last_completed_collective") for one in statuses):
                return self.ask("dump_nccl_trace_json?includecollectives=true", until)
            time.sleep(0.05)
            answer = self.ask(_HANDLERS["nccl"], until)
        return answer

    def ask(self, handler, until):
        """Returns what PyTorch's server answers until then, or nothing."""
        import socket
        import time

        answer = b""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(max(until - time.monotonic(), 0.001))
                connection.connect(self.file + ".sock")
                request = f"POST /handler/{handler} HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                connection.sendall(request.encode())
                while True:
                    connection.settimeout(max(until - time.monotonic(), 0.001))
                    part = connection.recv(1 << 16)
                    if not part:
                        return answer
                    answer += part
        except OSError:
            return b""

    def watch_errors(self):
        show = sys.excepthook

        def record_and_show(kind, error, trace):
            try:
                # Python sets this only for an exception that no code has caught. A program may also call this function.
                uncaught = getattr(sys, "last_value", None) is error
                if uncaught and self.pid == os.getpid() and kind is not KeyboardInterrupt:
                    self.record(kind, error, trace)
            except Exception:  # for example if the directory does not exist; ddplaunch reads what Python prints
                pass
            finally:  # a signal handler of the program may raise anything here
                show(kind, error, trace)

        sys.excepthook = record_and_show

    def leaves(self):
        """Writes the exception because of which the program destroys a group, if there is one.

        The other ranks lose this one now, and the code that follows, such as the rest of a `finally`, may take long.
        """
        kind, error, trace = sys.exc_info()
        if self.pid != os.getpid() or not isinstance(error, Exception) or isinstance(error, StopIteration):
            return
        self.record(kind, error, trace, self.file + ".handled")
        self.has_left = True

    def returns(self):
        self.has_left = False
        try:
            os.unlink(self.file + ".handled")
        except OSError:  # the files are gone
            pass

    def record(self, kind, error, trace, path=None):
        """Writes the exception as PyTorch's own `record` does, by default to its file. A file that exists stays."""
        import json
        import time
        import traceback

        stack = "".join(traceback.format_exception(kind, error, trace))
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        text = json.dumps({"message": {"message": f"{kind.__name__}: {error}", "extraInfo": extra}})
        _create(path or os.environ["TORCHELASTIC_ERROR_FILE"], text)

    def write(self, group):
        import time

        rank, size = group.get("group_rank"), group.get("group_size")
        if not isinstance(rank, int) or rank < 0:
            return
        description = group.get("group_desc") or ""
        backend = str(group.get("backend") or "").lower()
        self.backends.add(backend)
        self.append({
            "name": str(group["group_name"]),
            "description": "" if description in ("undefined", "default_pg") else str(description),
            "rank": rank,
            "size": size,
            "ranks": [int(rank) for rank in group["global_ranks_in_group"]],
            "made_at": time.time_ns(),
            "backend": backend,
            "store": _place_of(group.get("store")),
        })

    def append(self, line):
        import json

        # No descriptor is kept, because a program may close all descriptors and get the same number again.
        descriptor = os.open(self.file + ".groups", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)


def _place_of(store):
    """Returns a text that is the same for all processes that meet in this store, and differs for other stores."""
    for _ in range(100):  # a store may add a prefix to the keys of another one
        below = getattr(store, "underlying_store", None)
        if below is None:
            break
        store = below
    # Processes may know a host by different names.
    return f"{type(store).__name__} {getattr(store, 'port', '')} {getattr(store, 'path', '')}"


def _catches_crashes():
    """Returns whether the process has handlers of fatal signals. Python does not know of those of C libraries."""
    import signal

    fatal = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]
    with open("/proc/self/status") as file:
        caught = int(next(line for line in file if line.startswith("SigCgt:")).split()[1], 16)
    return any(caught >> (number - 1) & 1 for number in fatal)


def _unlock(descriptor):
    """Releases the lock at once, also if a forked child holds the descriptor, too."""
    import fcntl

    if descriptor is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
        except OSError:  # the program has closed all descriptors
            pass


def _keep(anything):
    """Prevents that an object is ever destroyed."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(anything))


def _without_signals(function, *args):
    """Calls the function while all signals are blocked. Threads that it starts receive no signal of the program."""
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, getattr(signal, "valid_signals", lambda: range(1, 32))())
        return function(*args)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


def _end():
    if _observer is not None:
        _observer.end()


_preloads = "DDP_PRELOADER" in os.environ
if _preloads:
    try:
        import ddp_preload

        _preloads = ddp_preload.is_preloader()
    except BaseException:  # the preloader must not run the program
        os._exit(1)
if _preloads or os.environ.get("DDP_TORCH_FILE"):
    import atexit

    # The first handler at exit that is registered runs after those of the program, so that their collectives are shown.
    atexit.register(_end)
    sys.meta_path.insert(0, _Finder)
sys.path[:] = _without_folder(sys.path)
if _preloads:
    ddp_preload.serve()  # returns in each worker that it has forked
    del ddp_preload
_run_hidden_one()

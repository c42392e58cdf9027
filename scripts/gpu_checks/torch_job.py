"""torch_job.py MODE [WORD...]: a program in PyTorch for scripts/gpu_check. It prints lines of JSON.

GPU_CHECK_CPU=1 replaces the GPU by the processor and nccl by gloo, to rehearse the program where there is no GPU.
"""
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time

begun = time.monotonic()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

IMPORTED = time.monotonic() - begun
MODE, WORDS = sys.argv[1], sys.argv[2:]
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
ON_CPU = os.environ.get("GPU_CHECK_CPU") == "1"
STATUS = "dump_nccl_trace_json?includecollectives=false"
ENTRIES = "dump_nccl_trace_json?includecollectives=true"
HANDLERS = ("fr_trace_json", STATUS, ENTRIES, "dump_nccl_trace_json?onlyactive=true",
            "dump_nccl_trace_json?includeCollectives=false")


def say(**fields):
    print(json.dumps({"mode": MODE, "rank": RANK, "ranks": WORLD, **fields}), flush=True)


def synchronize():
    if not ON_CPU:
        torch.cuda.synchronize()


def device():
    if ON_CPU:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        say(error="PyTorch sees no GPU")
        sys.exit(77)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def group(backend="nccl"):
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512", "RANK": "0", "WORLD_SIZE": "1"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo" if ON_CPU else backend)


def facts():
    has_gpu = torch.cuda.is_available()
    say(torch=torch.__version__, cuda=torch.version.cuda, imported_seconds=round(IMPORTED, 2), has_gpu=has_gpu,
        nccl=".".join(map(str, torch.cuda.nccl.version())) if has_gpu else None,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"), devices=torch.cuda.device_count() if has_gpu else 0,
        uuid=str(torch.cuda.get_device_properties(0).uuid) if has_gpu else None)


def ddp():
    backend, steps = WORDS[0], int(WORDS[1])
    where = device()
    group(backend)
    layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).to(where)
    model = torch.nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(RANK)
    times = []
    for _ in range(steps):
        at = time.monotonic()
        optimizer.zero_grad()
        model(torch.randn(16, 512, device=where)).square().mean().backward()
        optimizer.step()
        synchronize()
        times.append((time.monotonic() - at) * 1e3)
    # all_gather_object would need NumPy.
    own = torch.stack([parameter.double().sum() for parameter in model.parameters()])
    sums = [torch.empty_like(own) for _ in range(WORLD)]
    dist.all_gather(sums, own)
    are_equal = all(torch.equal(own, other) for other in sums)
    say(backend=backend, step_ms=round(statistics.median(times), 3), models_are_equal=are_equal)
    dist.destroy_process_group()


def calls():
    """The host's time for dist.all_reduce, as raw_nccl_bench and gpu_calls measure theirs."""
    seconds, sizes = float(WORDS[0]), [int(word) for word in WORDS[1:]]
    where = device()
    group()
    for size in sizes:
        values = torch.zeros(size // 4, device=where)
        batch = 4 if size > 1 << 20 else 20
        host, whole = [], []
        rounds, turn = 2, 0
        while turn < rounds:
            synchronize()
            at = time.perf_counter()
            for _ in range(batch):
                dist.all_reduce(values)
            called = time.perf_counter() - at
            synchronize()
            took = time.perf_counter() - at
            turn += 1
            if turn == 2:  # the ranks agree on the number of rounds
                slowest = torch.tensor([took], device=where)
                dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
                rounds += min(max(int(seconds / slowest.item()), 3), 50)
            elif turn > 2:
                host.append(called * 1e6 / batch)
                whole.append(took * 1e6 / batch)
        if RANK == 0:
            say(bytes=size, call_microseconds=round(statistics.median(host), 2),
                microseconds=round(statistics.median(whole), 2), rounds=len(host))
    dist.destroy_process_group()


class Server:
    """PyTorch's server of this process, which answers without the interpreter."""

    def __init__(self):
        from torch._C import _distributed_c10d as c10d
        self.path = tempfile.mkdtemp() + "/server"
        self.server = c10d._WorkerServer(self.path)

    def ask(self, handler):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(5)
            link.connect(self.path)
            head = f"POST /handler/{handler} HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            at = time.perf_counter()
            link.sendall(head.encode())
            parts = []
            while piece := link.recv(1 << 16):
                parts.append(piece)
            took = (time.perf_counter() - at) * 1e3
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        answer = json.loads(body) if body.startswith(b"{") else {"text": body.decode(errors="replace")[:200]}
        return {"answer": int(head.split()[1]), "milliseconds": round(took, 3), "bytes": len(body)}, answer

    def say_status(self, what):
        """Prints what the recorder shows of the groups without its entries."""
        figures, answer = self.ask("fr_trace_json" if ON_CPU else STATUS)
        say(what=what, **figures, pg_status=answer.get("pg_status"), pg_config=answer.get("pg_config"))


def hang():
    """The last rank does not come to the second collective."""
    where = device()
    group()
    values = torch.ones(1024, device=where)
    dist.all_reduce(values)
    synchronize()
    server = Server()
    server.say_status("healthy")

    def observe():
        for second in (2, 4, 6):
            time.sleep(2)
            server.say_status(f"hung for {second} s")

    threading.Thread(target=observe, daemon=True).start()
    if RANK == WORLD - 1:
        time.sleep(600)
    dist.all_reduce(values)
    synchronize()


def recorder():
    """Shows which recorder has which collectives, what asking costs, and whether it disturbs the capture of a graph."""
    where = device()
    group()
    values = torch.ones(1024, device=where)
    server = Server()
    other = dist.new_group([0])
    dist.all_reduce(values, group=other)
    for count, what in ((10, "few calls"), (3000, "a full recorder")):
        for _ in range(count):
            dist.all_reduce(values)
        synchronize()
        time.sleep(0.5)  # PyTorch's watchdog takes note of what has ended
        for handler in HANDLERS:
            answers = [server.ask(handler) for _ in range(5)]
            figures, answer = min(answers, key=lambda pair: pair[0]["milliseconds"])
            entries = answer.pop("entries", [])
            names = sorted({entry["profiling_name"] for entry in entries})
            say(what=what, handler=handler, **figures, entries=len(entries), names=names[:4], rest=answer,
                last=entries[-1] if entries else None)
    if not ON_CPU:
        for handler in (None, STATUS, "fr_trace_json"):
            capture_while_asked(server, handler, values)
        capture_collectives(server, values)
        # A dump of the entries queries events. It comes last, because a spoiled capture may spoil the process.
        capture_while_asked(server, ENTRIES, values)
    sys.stdout.flush()
    os._exit(0)


def capture_while_asked(server, handler, values):
    """Captures graphs in the default mode, in which an unsafe call of any thread spoils the capture."""
    done, asked, failed, captured = threading.Event(), [0], [], 0

    def poll():
        while handler and not done.wait(0.002):
            server.ask(handler)
            asked[0] += 1

    thread = threading.Thread(target=poll)
    thread.start()
    for _ in range(8):
        torch.cuda._sleep(int(2e8))  # about 0.1 s, so that the collective behind it has not ended
        dist.all_reduce(values)
        graph, x = torch.cuda.CUDAGraph(), torch.ones(8, device=values.device)
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                graph.capture_begin(capture_error_mode="global")
                until = time.monotonic() + 0.05
                while time.monotonic() < until:
                    x = x + 1
                    time.sleep(0.005)
                graph.capture_end()
            captured += 1
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            failed.append(str(error).splitlines()[0][:160])
            break
    done.set()
    thread.join()
    say(what="capture", handler=handler, asked=asked[0], captured=captured, failed=failed)


def capture():
    """Captures a graph for seconds, in the default mode, while a collective waits for the GPU."""
    where = device()
    group()
    values = torch.ones(1024, device=where)
    dist.all_reduce(values)
    synchronize()
    if not ON_CPU:
        torch.cuda._sleep(int(float(WORDS[0]) * 2e9))  # cycles, at about 1.8 GHz
    dist.all_reduce(values)
    at = time.monotonic()
    graph, x = torch.cuda.CUDAGraph(), torch.ones(8, device=where)
    if not ON_CPU:
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            while time.monotonic() < at + float(WORDS[0]):
                x = x + 1
                time.sleep(0.05)
            graph.capture_end()
    say(captured_seconds=round(time.monotonic() - at, 1))
    synchronize()
    dist.destroy_process_group()


def capture_collectives(server, values):
    """What the recorder shows of collectives in a graph, which run more often than they are called."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    server.say_status("before the capture of a collective")
    with torch.cuda.graph(graph, stream=stream):
        dist.all_reduce(values)
    server.say_status("after the capture of a collective")
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    time.sleep(0.5)
    server.say_status("after three replays")


def oom():
    where = device()
    held = []
    for _ in range(4 if ON_CPU else 1 << 20):
        held.append(torch.empty(1 << 28, device=where))


def kernels():
    """What PyTorch's kernels need for the work that kernel_bench measures."""
    where = device()
    for count in (256 << 20, (25 << 20) // 4) if not ON_CPU else (1 << 16,):
        measure_kernels(count, where)
        if not ON_CPU:
            torch.cuda.empty_cache()


def measure_kernels(count, where):
    a, b = torch.full((count,), 0.01, device=where), torch.full((count,), 0.02, device=where)
    h = torch.empty(count, device=where, dtype=torch.bfloat16)
    parameter = torch.nn.Parameter(torch.full((count,), 0.01, device=where))
    parameter.grad = a
    adam = torch.optim.Adam([parameter], fused=True)
    for name, moved, work in (("copy f32", 8, lambda: b.copy_(a)), ("scale f32", 8, lambda: b.mul_(0.999)),
                              ("convert f32 to bf16", 6, lambda: h.copy_(a)),
                              ("add f32", 12, lambda: b.add_(a, alpha=0.5)), ("Adam f32", 28, adam.step),
                              ("sum of squares f32", 4, lambda: torch.linalg.vector_norm(a)),
                              ("find infinite f32", 4, lambda: torch.isfinite(a).all())):
        seconds = statistics.median(time_of(work) for _ in range(20))
        say(kernel=f"{name} of {count >> 10} Ki elements", microseconds=round(seconds * 1e6, 2),
            gb_per_s=round(moved * count / seconds / 1e9, 1))


def time_of(work):
    work()
    synchronize()
    if ON_CPU:
        at = time.perf_counter()
        work()
        return time.perf_counter() - at
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    synchronize()
    return start.elapsed_time(end) / 1e3


def step():
    """A step without and with communication, of the model that step_bench trains."""
    where = device()
    group()
    widths = (1024, 3072, 3072, 3072, 1024)
    layers = []
    for narrow, wide in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(narrow, wide), torch.nn.ReLU()]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers[:-1]).to(where),
                                                      gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(64, 1024, device=where), torch.randn(64, 1024, device=where)

    def train():
        at = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        synchronize()
        return (time.perf_counter() - at) * 1e3

    local, steps = [], []
    for _ in range(3 + int(WORDS[0])):
        with model.no_sync():
            local.append(train())
        steps.append(train())
    if RANK == 0:
        say(local=local[3:], steps=steps[3:])
    dist.destroy_process_group()


def keep():
    """Trains with nothing_lost(). WORDS are the steps, the step in which the last rank is killed (0: in none; -1: in none,
    and no digest), the width and the number of the layers, and whether states are kept."""
    import hashlib
    import signal

    import ddp_state
    steps, fault, width, depth, keeps = map(int, WORDS)
    where = device()
    group()
    torch.manual_seed(1)
    layers = [layer for _ in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width))]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(where))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(2 + RANK)
    if keeps:
        run = ddp_state.nothing_lost(model=model, optimizer=optimizer)
    numbers = run.steps(steps) if keeps else range(steps)
    attempt, begins, at = os.environ.get("DDP_ATTEMPT"), run.step if keeps else 0, None
    say(what="begins", attempt=attempt, step=begins, at=time.time())
    for step in numbers:
        if step == begins + 1:
            synchronize()
            say(what="goes on", attempt=attempt, at=time.time())
        if step == begins + 10:
            synchronize()
            at = time.perf_counter()
        if step == fault > 0 and attempt == "0" and RANK == WORLD - 1:
            say(what="is killed", step=step, at=time.time())
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.randn(16, width, device=where)).square().mean().backward()
        optimizer.step()
    synchronize()
    step_ms = (time.perf_counter() - at) * 1e3 / (steps - begins - 10) if at else None
    digest = hashlib.sha256()
    for tensor in (*model.state_dict().values(),
                   *(tensor for state in optimizer.state.values() for tensor in state.values())) if fault >= 0 else ():
        digest.update(ddp_state._view(tensor.detach().cpu()))
    images = {"image_every": run.image_every, "image_ms": run.device.image_seconds() * 1e3} if keeps else {}
    say(what="ends", digest=digest.hexdigest(), step_ms=step_ms, gigabytes=12 * depth * width * width / 1e9, **images)
    dist.destroy_process_group()


{"facts": facts, "ddp": ddp, "calls": calls, "hang": hang, "oom": oom, "recorder": recorder, "capture": capture,
 "kernels": kernels, "step": step, "keep": keep}[MODE]()

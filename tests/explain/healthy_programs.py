"""healthy_programs.py NAME: one rank of a training that ends with success. record_logs.py records what it prints.

Each function is a program. Many of them print what a failed job prints, too: errors that are handled, names of errors,
tracebacks of an attempt that was repeated.
"""
import asyncio
import contextlib
import faulthandler
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import unittest
import warnings

for ours, theirs in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
                     ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")):
    os.environ.setdefault(ours, os.environ.get(theirs, "1" if ours == "WORLD_SIZE" else "0"))
RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
OOM = ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.21 GiB is "
       "free. Including non-PyTorch memory, this process has 77.93 GiB memory in use.")


def losses(steps=6, start=2.3):
    for step in range(1, steps + 1):
        yield step, start / step ** 0.5 + 0.01 * RANK


@contextlib.contextmanager
def group():
    import torch.distributed as dist
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("JOB_PORT", "29544"))
    dist.init_process_group("gloo")
    yield dist
    dist.destroy_process_group()


def train(steps=6, report=None, **options):
    """Trains a small model with DistributedDataParallel, which is gone before the process group is destroyed."""
    with group():
        train_in_group(steps, report or (lambda n, value: print(f"step {n} loss {value:.4f}", flush=True)), options)


def train_in_group(steps, report, options):
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    wrapped = torch.nn.parallel.DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = (wrapped(torch.randn(4, 8)) ** 2).mean()
        loss.backward()
        optimizer.step()
        report(step, loss.item())


def plain_ddp():
    train()


def find_unused_parameters():
    train(find_unused_parameters=True)


def static_graph():
    train(static_graph=True)


def gradient_views():
    train(gradient_as_bucket_view=True, bucket_cap_mb=1)


def json_metrics():
    train(report=lambda n, loss: print(json.dumps({"step": n, "loss": loss, "errors": 0, "oom": False,
                                                    "nccl_timeout": 1800, "failed_samples": 0}), flush=True))


def logging_with_times():
    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", level=logging.INFO)
    train(report=lambda n, loss: logging.info("step %d loss %.4f grad_norm nan_count=0", n, loss))
    logging.warning("learning rate is 0 in the last step")


def tqdm_bars():
    from tqdm import tqdm
    for epoch in range(2):
        for _ in tqdm(range(20), desc=f"Epoch {epoch}", file=sys.stderr, mininterval=0):
            time.sleep(0.002)
    print("done", flush=True)


def bars_without_newline():
    for i in range(0, 101, 10):
        sys.stdout.write(f"\r{i:3d}% |{'#' * (i // 10):10s}| {i}/100 [00:0{i // 20}<00:00, loss=0.{100 - i:02d}]")
        sys.stdout.flush()
    sys.stdout.write("\rfinished" + " " * 50)


def rich_output():
    from rich.console import Console
    from rich.table import Table
    console = Console(force_terminal=True, width=100)
    table = Table(title="Results")
    for name in "epoch", "loss", "errors":
        table.add_column(name)
    for step, loss in losses():
        table.add_row(str(step), f"{loss:.3f}", "0")
    console.print(table)
    console.print("[bold red]0 errors[/], [green]all ranks ok[/]")


def loader_with_many_workers():
    import torch
    loader = torch.utils.data.DataLoader(range(64), batch_size=8, num_workers=2 + 2 * (os.cpu_count() or 1),
                                         pin_memory=True)
    print("sum", sum(int(batch.sum()) for batch in loader))


def mixed_precision():
    import torch
    scaler = torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 4)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    with torch.cuda.amp.autocast():
        pass
    print(f"loss {loss.item():.3f} scale {scaler.get_scale()} overflows 0")


def gradient_checkpointing():
    import torch
    from torch.utils.checkpoint import checkpoint
    layer = torch.nn.Linear(4, 4)
    out = checkpoint(layer, torch.ones(1, 4))
    out = checkpoint(layer, torch.ones(1, 4), use_reentrant=True)
    checkpoint(layer, torch.ones(1, 4), use_reentrant=False).sum().backward()
    print("norm", float(out.norm()) > 0)


def scheduler_before_optimizer():
    import torch
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        scheduler.step()
    print("lr", scheduler.get_last_lr())


def caught_out_of_memory():
    import torch
    size = 64
    while size > 16:
        try:
            if size > 16:
                raise (getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError)(OOM)
        except RuntimeError:
            traceback.print_exc()
            size //= 2
            print(f"retrying with a batch of {size}", file=sys.stderr, flush=True)
    train(steps=4)
    print("training finished")


def out_of_memory_as_a_line():
    for size in 512, 256:
        print(f"[warn] batch {size}: {OOM} Trying {size // 2}.")
    for step, loss in losses():
        print(f"iteration {step} batch 128 loss {loss:.4f}")
    print("best batch size found: 128")


def address_in_use_retried():
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    try:
        with socket.socket() as second:
            second.bind(taken.getsockname())
    except OSError as error:
        logging.error("cannot serve metrics on port %d: %s; trying the next one", 9400, error)
        traceback.print_exc()
    with socket.socket() as third:
        third.bind(("127.0.0.1", 0))
        print("metrics server ready")
    for step, loss in losses():
        print(f"step {step} loss {loss:.3f}")


def download_retried():
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.INFO)
    for attempt in range(1, 4):
        try:
            if attempt < 3:
                raise ConnectionResetError(104, "Connection reset by peer")
            logging.info("downloaded 3 shards")
        except OSError:
            logging.exception("attempt %d of 3 failed, retrying in 1 s", attempt)
    for step, loss in losses():
        logging.info("step %d loss %.3f", step, loss)


def chained_exception_logged():
    try:
        try:
            {}["tokenizer"]
        except KeyError as error:
            raise RuntimeError("cannot read the cache; building it again") from error
    except RuntimeError:
        logging.exception("cache miss")
    print("cache built")
    for step, loss in losses():
        print(f"step {step}: {loss:.3f}")


def child_failed_and_handled():
    try:
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True)
    except subprocess.CalledProcessError:
        traceback.print_exc()
        print("no git revision is recorded")
    subprocess.run([sys.executable, "-c", "import os; os.abort()"], check=False)
    print("finished in 3.2 s")


def store_timeout_handled():
    import datetime
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=datetime.timedelta(milliseconds=300),
                          wait_for_workers=False)
    try:
        store.get("a key that is never set")
    except Exception as error:  # its type depends on the version
        print(f"no old run to join ({type(error).__name__}: {str(error).splitlines()[0]}), starting a new one")
    train(steps=3)


def exception_ignored():
    class Handle:
        def __del__(self):
            raise ValueError("I/O operation on closed file")
    Handle()
    print("training finished", flush=True)


def thread_failed():
    def heartbeat():
        raise ConnectionRefusedError(111, "Connection refused")
    thread = threading.Thread(target=heartbeat, name="metrics")
    thread.start()
    thread.join()
    for step, loss in losses():
        print(f"step {step} loss {loss:.3f}")


def task_not_retrieved():
    async def work():
        async def fail():
            raise TimeoutError("the dashboard did not answer")
        task = asyncio.create_task(fail())
        await asyncio.sleep(0.01)
        del task
    asyncio.run(work())
    print("all epochs done")


def stacks_dumped():
    faulthandler.dump_traceback_later(0.05, exit=False)
    time.sleep(0.2)
    faulthandler.cancel_dump_traceback_later()
    faulthandler.dump_traceback()
    print("slow step 17 took 0.2 s")


def many_warnings():
    for text in ("the fork method may lead to deadlocks", "error_bad_lines is deprecated",
                 "CUDA initialization: no device, using the CPU", "OMP_NUM_THREADS is not set", "NaN in column 3 dropped"):
        warnings.warn(text, UserWarning)
    for step, loss in losses():
        print(f"step={step} loss={loss:.3f}")


def model_and_optimizer_shown():
    import torch
    model = torch.nn.TransformerEncoderLayer(16, 2, dropout=0.1)
    print(model)
    print(torch.optim.AdamW(model.parameters()))
    print(sum(p.numel() for p in model.parameters()), "parameters")


def state_loaded():
    import torch
    model = torch.nn.Linear(2, 2)
    print(model.load_state_dict({"weight": torch.zeros(2, 2), "old.bias": torch.zeros(2)}, strict=False))
    print(model.load_state_dict(model.state_dict()))
    print("Some weights were not initialized: ['bias']. You should probably TRAIN this model.")


def profiler_table():
    import torch
    with torch.profiler.profile() as profile:
        torch.ones(64, 64) @ torch.ones(64, 64)
    print(profile.key_averages().table(sort_by="cpu_time_total", row_limit=5))


def zero_optimizer():
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer
    with group():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        print("sharded step done")


def join_uneven():
    import torch
    from torch.distributed.algorithms.join import Join
    with group():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        with Join([model]):
            for i in range(3 + RANK):
                model(torch.ones(1, 4)).sum().backward()
                print("batch", i)


def accumulation():
    import torch
    with group():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        for i in range(8):
            with contextlib.nullcontext() if i % 4 == 3 else model.no_sync():
                model(torch.ones(1, 4)).sum().backward()
        print("2 synchronised steps")


def subgroups():
    import torch
    with group() as dist:
        groups = [dist.new_group([rank]) for rank in range(WORLD_SIZE)]
        dist.all_reduce(torch.ones(1), group=groups[RANK])
        dist.monitored_barrier()
        gathered = [None] * WORLD_SIZE
        dist.all_gather_object(gathered, {"rank": RANK, "errors": []})
        print(gathered)


def generated_text():
    """A language model that was trained on forums."""
    samples = ["RuntimeError: CUDA out of memory. Try to reduce the batch size", "my nccl job hangs, watchdog timeout",
               "Q: what means 'Address already in use'? A: another job has the port", "Segmentation fault (core dumped)",
               "Traceback (most recent call last):\\n  File \"a.py\", line 1, in <module>\\nKeyError: 0",
               "Expected more than 1 value per channel when training", "NCCL error: unhandled system error"]
    for step, (_, loss) in enumerate(losses(len(samples))):
        print(f"step {step * 100} loss {loss:.3f} | sample: {samples[step]!r}")


def generated_blocks():
    for step in 100, 200:
        print(f"--- sample after {step} steps ---\n> how do I fix RuntimeError: Address already in use\n> use another port\n"
              f"> and CUDA out of memory?\n> smaller batches\n--- end of sample ---")
    print("perplexity 12.7")


def classified_errors():
    """A classifier of log lines, which prints some of its test set."""
    for text, label in (("ECC error on GPU 3", "hardware"), ("NCCL WARN NET/IB : Got completion with error", "network"),
                        ("slurmstepd: error: Detected 1 oom_kill event", "memory"),
                        ("ModuleNotFoundError: No module named 'apex'", "software")):
        print(f"  predicted={label:10s} text={text!r}")
    print("accuracy 0.98")


def configuration_shown():
    print("ddp:\n  backend: nccl\n  timeout_s: 1800\n  on_oom: skip_batch   # CUDA out of memory\n  find_unused_parameters: "
          "false\n  error_policy: raise\nslurm:\n  requeue_on: [NODE_FAIL, PREEMPTED, TIMEOUT]\n  signal: USR1@120")
    for step, loss in losses():
        print(f"step {step} loss {loss:.3f}")


def history_shown():
    print("commit log since the last run:\n  a1b2c3d fix: CUDA out of memory in evaluation\n  d4e5f6a fix 'Address already in "
          "use' with two jobs\n  0a1b2c3 raise an error if a checkpoint has module. prefixes\n  9f8e7d6 nccl: set the timeout")
    for step, loss in losses():
        print(f"step {step} loss {loss:.3f}")


def source_shown():
    print(open(__file__, encoding="utf-8").read()[5000:8000])
    print("run finished")


def help_shown():
    import argparse
    parser = argparse.ArgumentParser(prog="train.py", description="Trains a model on several GPUs.")
    parser.add_argument("--local_rank", "--local-rank", type=int, help="set by the launcher; unrecognized by new ones")
    parser.add_argument("--on-oom", choices=["raise", "skip"], help="what follows a CUDA out of memory error")
    parser.add_argument("--nccl-timeout", help="seconds until the watchdog aborts a collective that timed out")
    parser.add_argument("--backend", default="nccl", help="nccl or gloo; a misspelled name fails")
    parser.parse_args(["--help"])


def tests_passed():
    class Tests(unittest.TestCase):
        def test_cuda_out_of_memory_is_caught(self):
            with self.assertRaises(RuntimeError):
                raise RuntimeError(OOM)

        def test_address_already_in_use_is_retried(self):
            self.assertTrue(True)

        @unittest.expectedFailure
        def test_known_error(self):
            self.assertEqual(1, 2)

        @unittest.skip("NCCL is not available")
        def test_nccl_error(self):
            pass
    unittest.main(argv=["tests", "-v"], defaultTest=None, module=type("M", (), {"Tests": Tests}), verbosity=2)


def bytes_and_colours():
    sys.stdout.buffer.write(b"\x1b[32mINFO\x1b[0m caf\xe9 \xff\xfe tokens \x1b[1;31merror rate\x1b[0m 0.02\n")
    for step, loss in losses():
        sys.stdout.buffer.write(f"\x1b[2K\x1b[1Gstep {step} \x1b[33mloss {loss:.3f}\x1b[0m\n".encode())
    sys.stdout.flush()


def skipped_steps():
    for step, loss in losses(8):
        if step % 4 == 0:
            print(f"step {step}: loss is nan, the step is skipped (overflow), scale 32768 -> 16384")
        else:
            print(f"step {step}: loss {loss:.3f}")


def restarted():
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if attempt == 0:
        if RANK == 1:
            raise ValueError("the data of step 6 is gone")
        time.sleep(20)
    for step, loss in losses():
        print(f"attempt {attempt} step {step} loss {loss:.3f}", flush=True)


def restarted_after_out_of_memory():
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        if RANK == 0:
            raise RuntimeError(OOM)
        time.sleep(20)
    for step, loss in losses():
        print(f"resumed, step {step} loss {loss:.3f}", flush=True)


def saved_on_signal():
    import signal
    signal.signal(signal.SIGUSR1, lambda *_: print("received SIGUSR1, checkpoint saved, job is requeued", flush=True))
    os.kill(os.getpid(), signal.SIGUSR1)
    print("exiting with code 0")


def evaluation():
    print(f"{'class':12s}{'precision':>10s}{'recall':>8s}{'error':>8s}")
    for name in "cat", "dog", "failure", "timeout":
        print(f"{name:12s}{0.91:10.2f}{0.88:8.2f}{0.09:8.2f}")
    print("top-1 error 8.9 %, worst class: timeout")


if __name__ == "__main__":
    globals()[sys.argv[1]]()

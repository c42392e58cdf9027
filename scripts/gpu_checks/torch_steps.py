"""The steps of scripts/gpu_check that run PyTorch."""
from __future__ import annotations

import re

from gpu_checks.machine import Machine
from gpu_checks.results import Results
from gpu_checks.runtime_steps import evidence, ranks_text, show_calls, with_two

HANG_LIMIT = 8  # seconds


def line_of(done, **wanted: object) -> dict:
    return next((line for line in done.lines() if all(line.get(name) == value for name, value in wanted.items())), {})


def training(machine: Machine, results: Results) -> None:
    """PyTorch sees the GPU that the launcher gives it, and trains."""
    done = machine.torch(1, "facts", options=("--quiet", "--device-visibility=own"), seconds=25)
    line = line_of(done, mode="facts")
    seen = line.get("devices") == 1 or bool(machine.torch_variables())
    results.ended("a PyTorch worker sees its GPU", done, str(line), seen, figures=line)
    if line.get("uuid"):
        done = machine.torch(1, "facts", options=("--quiet", f"--gpus=GPU-{line['uuid']}"), seconds=25)
        line = line_of(done, mode="facts")
        results.ended("--gpus by UUID", done, f"CUDA_VISIBLE_DEVICES={line.get('visible')}", line.get("devices") == 1)
    for ranks, backend in ((1, "nccl"), (2, "nccl"), (2, "gloo")):
        what = f"DistributedDataParallel under ddplaunch, {ranks_text(ranks)}, {backend}"

        def run(ranks: int = ranks, backend: str = backend, what: str = what) -> None:
            done = machine.torch(ranks, "ddp", backend, 20, seconds=45)
            line = line_of(done, mode="ddp")
            results.ended(what, done, f"a step {line.get('step_ms')} ms", bool(line.get("models_are_equal")),
                          figures=line)

        if ranks == 1:
            run()
        else:
            with_two(machine, results, what, run)


def recorder(machine: Machine, results: Results) -> None:
    """Which of PyTorch's recorders has which collectives, what asking costs, and what it disturbs."""
    done = machine.run(*machine.torch_job("recorder"), seconds=40, own=False, **machine.torch_variables())
    for line in done.lines():
        if line["what"] == "capture":
            # A question for the entries may spoil a capture, so ddplaunch does not ask it then: see the step capture.
            lists_entries = "includecollectives=true" in (line["handler"] or "")
            results.note(f"graph captures while {line['handler'] or 'nothing'} is asked",
                         lists_entries or not line["failed"],
                         f"{line['captured']} captured, asked {line['asked']} times {line['failed']}", figures=line)
        elif "handler" in line:
            results.note(f"{line['handler']}, {line['what']}", True,
                         f"{line['answer']}, {line['entries']} entries {line['names']}, {line['milliseconds']} ms, "
                         f"{line['bytes']} bytes, {line['rest'].get('pg_status') or line['rest'].get('text', '')}",
                         figures=line)
        else:
            results.note(f"pg_status {line['what']}", True, str(line["pg_status"]), figures=line)
    if done.code != 0 or not done.lines():
        results.ended("PyTorch's recorder", done, ok=bool(done.lines()))


def capture(machine: Machine, results: Results) -> None:
    """The launcher asks PyTorch's recorders, and a graph is captured meanwhile."""
    done = machine.torch(1, "capture", 8, seconds=40)
    line = line_of(done, mode="capture")
    results.ended("a graph is captured for seconds while a collective waits", done,
                  f"captured for {line.get('captured_seconds')} s", bool(line), figures=line)


def show_named(results: Results, what: str, done) -> None:
    named = re.search(r"^.*rank 1.*DDP-H.*$", done.err, re.M)
    ok = done.code == 124 and named is not None and not done.is_late
    results.note(what, ok,
                 f"exit code {done.code} after {done.seconds:.1f} s: {named[0]}" if ok else done.last_lines(12))


def programs_on_nccl(machine: Machine, results: Results) -> None:
    """A C++ program uses NCCL and not the runtime: rank 1 does something else, or all of them capture a graph."""
    # The launcher sets it if the machine has a GPU.
    simulated = {"NCCL_PROFILER_PLUGIN": str(machine.bin / "libnccl-profiler-ddplaunch.so")}
    variables = simulated if machine.found["simulated"] else {}
    for kind, options, code, wanted in (
            ("skip", ("--max-restarts=1",), 124, r"rank 1 has not called all_reduce .*DDP-H03"),
            ("different", (), 124, r"rank 1 called all_gather .*DDP-H04"), ("kill", (), 137, "rank 1 .*SIGKILL"),
            ("graph", (), 0, "")):
        folder = machine.files / f"nccl_{kind}"
        folder.mkdir(exist_ok=True)
        done = machine.launch(2, "nccl_program", kind, 20, options=(f"--hang-timeout={HANG_LIMIT}", *options),
                              seconds=60, HANG_FOLDER=str(folder), **variables)
        ok = done.code == code and re.search(wanted, done.err) is not None and not done.is_late
        results.note(f"a program on NCCL, {kind}", ok, f"exit code {done.code} after {done.seconds:.1f} s"
                     + ("" if ok else f": {done.last_lines(12)}"))


def trains(machine: Machine, ranks: int, *words: int, options: tuple, seconds: float):
    """Runs the mode keep, in which the same numbers must always have the same bits."""
    return machine.torch(ranks, "keep", *words, options=options, seconds=seconds, CUBLAS_WORKSPACE_CONFIG=":4096:8")


def lost(machine: Machine, results: Results) -> None:
    """A rank is killed, so that a kernel of NCCL never ends on the other. The job goes on from the GPU's memory."""
    fault, digests = 60, []
    for steps in ((100, 0), (100, fault)):
        done = trains(machine, 2, *steps, 512, 4, 1, options=("--max-restarts=2",), seconds=40)
        digests.append({line["rank"]: line["digest"] for line in done.lines() if line.get("what") == "ends"})
    begins = [line["step"] for line in done.lines() if line.get("attempt") == "1" and line["what"] == "begins"]
    killed, goes_on = line_of(done, what="is killed"), line_of(done, what="goes on", attempt="1")
    seconds = round(goes_on.get("at", 0) - killed.get("at", 0), 2)
    said = re.search(r"the ranks go on after step .*", done.err)
    # The host is at most two steps ahead of the GPU, and a third one is under way.
    is_right = len(digests[0]) == 2 and digests[0] == digests[1] and said is not None and "no step is lost" in said[0]
    is_right = is_right and len(set(begins)) == 1 and fault - 3 <= begins[0] <= fault + 1
    results.ended("a lost rank costs no step of a job on GPUs", done,
                  f"killed in step {fault}, goes on with {begins}, the second step after {seconds} s", is_right,
                  figures={"begins": begins, "seconds": seconds, "are_equal": digests[0] == digests[1]})


def images(machine: Machine, results: Results) -> None:
    """What it costs to keep states on a GPU, and to copy them beside the next step."""
    size = (32, 1) if machine.rehearse else (4096, 8)
    for who, keeps, options in (("no state is kept", 0, ()), ("states are kept", 1, ("--max-restarts=1",)),
                                ("images take 1 %", 1, ("--max-restarts=1", "--image-cost=1%")),
                                ("images take all", 1, ("--max-restarts=1", "--image-cost=100%"))):
        done = trains(machine, 1, 160, -1, *size, keeps, options=("--quiet", *options), seconds=30)
        line = line_of(done, what="ends")
        results.ended(f"a step when {who}", done, f"{line.get('step_ms')} ms, an image after {line.get('image_every')} steps, "
                      f"the last one cost {line.get('image_ms')} ms", line.get("step_ms") is not None, figures=line)


def plugin(machine: Machine, results: Results) -> None:
    """Without PyTorch's recorder, NCCL's profiler plug-in shows the collectives. What a call costs with it."""
    done = machine.torch(2, "hang", options=(f"--hang-timeout={HANG_LIMIT}",), seconds=45, DDP_TORCH="0")
    show_named(results, "a hang is named by what NCCL is called for", done)
    programs_on_nccl(machine, results)
    for who, variables in (("no plug-in", {"NCCL_PROFILER_PLUGIN": "none"}), ("the plug-in", {})):
        seconds = 0.05 if machine.found["simulated"] else 1.2
        done = machine.launch(2, "raw_nccl_bench", machine.files / f"id_{who}".replace(" ", "_"), seconds, 4, 65536,
                              seconds=25, NCCL_COMM_BLOCKING="1", **variables)
        show_calls(results, f"NCCL with {who}", 2, done)


def hang(machine: Machine, results: Results) -> None:
    """The launcher names the rank that a job of nccl waits for."""
    variables = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{machine.files}/pipe_", "TORCH_FR_BUFFER_SIZE": "2000",
                 "TORCH_FR_DUMP_TEMP_FILE": f"{machine.files}/recording_"}
    done = machine.torch(2, "hang", options=(f"--hang-timeout={HANG_LIMIT}",), seconds=45, **variables)
    for line in done.lines():
        if "pg_status" in line:
            results.note(f"pg_status of rank {line['rank']}, {line['what']}", True,
                         f"{line['answer']} {line['milliseconds']} ms {line['pg_status']} {line['pg_config']}",
                         figures=line)
    show_named(results, "a hang of a PyTorch job is named", done)
    evidence(machine, results, done, "flight recorder", "it is PyTorch's", True)

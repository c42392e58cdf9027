"""The results of scripts/gpu_check. They are written as soon as they are known, as the machine may be taken away."""
from __future__ import annotations

import json
import pathlib
import tarfile
import time

from gpu_checks.machine import Done

MARKS = {None: "skip", True: "ok", False: "FAIL"}
MOST_LOG = 12 << 20  # bytes; each file stays below 16 MiB
MOST_OF_A_PROGRAM = 100_000
MOST_REPORTS = 12 << 20
# What one GPU cannot show, however many steps pass.
UNSHOWN = """One GPU cannot show: NVLink, peer-to-peer access, NVLink SHARP and whether registered memory makes its
calls meet on the host, the order of launches on several GPUs, their overlap and their speed. Two ranks that share a
GPU take turns on it: their verdicts and results count, their times do not."""


def say(text: str) -> None:
    """Prints. If the reader of the output has ended, the files still get everything."""
    try:
        print(text, flush=True)
    except OSError:
        pass


class Results:
    """Records results. `ok` is None if a check could not run."""

    def __init__(self, out: pathlib.Path, call: str) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.call = out, call
        self.begin = time.monotonic()
        self.all: list[dict] = []
        self.steps: list[dict] = []
        self.step = ""
        self.title = ""
        self.lines = open(out / f"results_{call}.jsonl", "w", encoding="utf-8")
        self.log = open(out / f"logs_{call}.txt", "w", encoding="utf-8")
        self.logged = 0

    def note(self, what: str, ok: bool | None, detail: str = "", **figures: object) -> None:
        self.all.append({"step": self.step, "what": what, "ok": ok, "detail": detail, **figures})
        self.lines.write(json.dumps(self.all[-1]) + "\n")
        self.lines.flush()
        say(f"{MARKS[ok]:<4}  {what:<58} {detail[:200]}")

    def ended(self, what: str, done: Done, detail: str = "", ok: bool = True, **figures: object) -> bool:
        """Records a program that must end with 0. 77 means that it cannot do its task on this machine."""
        is_ok = done.code == 0 and ok
        why = detail if is_ok else done.last_lines()
        self.note(what, None if done.code == 77 else is_ok, why, seconds=round(done.seconds, 2), **figures)
        return is_ok

    def step_ended(self, step: str, state: str, seconds: float, proves: str, not_proves: str) -> None:
        self.steps.append({"step": step, "state": state, "seconds": round(seconds, 1), "proves": proves,
                           "not_proves": not_proves})
        self.lines.write(json.dumps(self.steps[-1]) + "\n")
        self.write_summary()

    def record(self, words: tuple, done: Done) -> None:
        text = f"\n===== {self.step}: {' '.join(map(str, words))[:2000]}\n[{done.code} after {done.seconds:.1f} s]\n"
        text += done.out[-MOST_OF_A_PROGRAM:] + ("\n--- stderr\n" + done.err[-MOST_OF_A_PROGRAM:] if done.err else "")
        if self.logged + len(text) < MOST_LOG:
            self.logged += self.log.write(text + "\n")
            self.log.flush()

    def write_summary(self) -> str:
        lines = [f"gpu_check {self.call}, {time.monotonic() - self.begin:.0f} s: {self.title}", "",
                 "step           seconds  state; proves / does not prove"]
        for step in self.steps:
            lines.append(f"{step['step']:<14} {step['seconds']:7.1f}  {step['state']}; {step['proves']} / "
                         f"{step['not_proves']}")
        lines += ["", "result step          what"]
        lines += [f"{MARKS[result['ok']]:<6} {result['step']:<13} {result['what']:<58} {result['detail'][:240]}"
                  for result in self.all]
        counts = [sum(result["ok"] is ok for result in self.all) for ok in (True, False, None)]
        lines += ["", UNSHOWN, "", "{} ok, {} failed, {} skipped".format(*counts)]
        text = "\n".join(line.replace("\n", " ") if line is not UNSHOWN else line for line in lines) + "\n"
        (self.out / f"summary_{self.call}.txt").write_text(text)
        return text

    def pack_reports(self, folder: pathlib.Path) -> None:
        """Packs the files that programs have left, such as the launcher's reports."""
        size = 0
        with tarfile.open(self.out / f"reports_{self.call}.tgz", "w:gz") as tar:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink() and size + path.stat().st_size < MOST_REPORTS:
                    size += path.stat().st_size
                    tar.add(path, arcname=str(path.relative_to(folder)))

    def exit_code(self) -> int:
        outcomes = [result["ok"] for result in self.all]
        return 1 if False in outcomes or True not in outcomes else 0

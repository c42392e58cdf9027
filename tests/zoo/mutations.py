#!/usr/bin/env python3
"""mutations.py BUILD_DIR: breaks what decides about hangs in more than twenty ways, one at a time, and runs the tests of the
decision on each (virtual time, no processes). Fails if they pass although it is broken.

Needs a build with tests. Each mutation is compiled alone and linked to the rest, which takes some seconds.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
CXX = os.environ.get("CXX", "c++")
SOURCES = ["src/launcher/supervise/stall_policy.cpp", "src/launcher/supervise/hang_detector.cpp",
           "src/launcher/supervise/verdict.cpp", "src/launcher/process/activity_meter.cpp",
           "src/launcher/process/board_view.cpp", "src/launcher/supervise/root_causes.cpp"]
TESTS = ["supervise/stall_policy", "supervise/hang_detector", "supervise/hang_detector_beats",
         "supervise/hang_detector_groups", "supervise/verdict", "supervise/root_causes", "process/activity_meter", "process/board_view"]
POLICY, DETECTOR, VERDICT, METER, VIEW, ROOTS = SOURCES

# What is broken: the file, what stands there once, what stands there instead.
MUTATIONS = {
    "a partial verdict ends the job": (POLICY, "|| facts.is_partial ||", "||"),
    "a rank is given up where nobody waits": (POLICY, "if (is_without_calls(facts.kind) || facts.is_partial", "if (facts.is_partial"),
    "age counts instead of signs of life": (POLICY, "Limit{plan.still, *facts.still_for,", "Limit{plan.still, facts.age,"),
    "a rank that has ended is waited for": (POLICY, "Limit{limits::kHangFirstWord, facts.age, \"it will not come\"}",
                                            "Limit{10 * limits::kHangFirstWord, facts.age, \"it will not come\"}"),
    "a circle needs no proof": (POLICY, "if (facts.is_proven)", "if (true)"),
    "work extends the user's limit": (POLICY, "Limit users{*plan.timeout, facts.progress_age,",
                                      "Limit users{*plan.timeout, facts.still_for.value_or(facts.age),"),
    "learnt limits end jobs by default": (POLICY, "plan.limit == HangLimit::learnt && facts.is_warm) return", "facts.is_warm) return"),
    "the first word is late": (POLICY, "constexpr int kPauses = 4;", "constexpr int kPauses = 40;"),
    "every report is a warning": (POLICY, "judgement.is_warning = ", "judgement.is_warning = true || "),
    "a node that sees a part judges first": (POLICY, "limit->time += limits::kHangFirstWord;", ""),
    "more time is not given": (POLICY, "facts.more_time > std::max(limit->left(), Nanoseconds(0))", "false"),
    "a rank that worked alone is ended without a report": (POLICY, "users.passed = std::min(", "users.passed = std::max("),
    "starving is no sign of life": (METER, "window_->runnable_samples >= thresholds_.runnable_samples", "false"),
    "new processes are no sign of life": (METER, "if (done.processes_changed)", "if (false)"),
    "network traffic is no sign of life": (METER, "return done.network_bytes >= thresholds_.network_bytes ? Sign::network : Sign::none;",
                                           "return Sign::none;"),
    "output is no sign of life": (METER, "if (done.has_printed)", "if (false)"),
    "watchdog threads are signs of life": (METER, "cpu_share >= thresholds_.cpu_share", "cpu_share > 0"),
    "one sign does not make a rank alive": (METER, "activity.still_for + length : Nanoseconds(0);", "activity.still_for + length : activity.still_for;"),
    "time in which nobody looked counts": (METER, "now - std::exchange(seen_, now) > thresholds_.longest_gap", "false"),
    "spinning counts as data": (METER, "activity.unmoved_for = has_moved ||", "activity.unmoved_for = activity.last_sign != Sign::none ||"),
    "where all wait their work counts": (DETECTOR, "waits_for_data ? clock->second.unmoved : clock->second.still", "clock->second.still"),
    "heartbeats are no sign of life": (DETECTOR, "clock = {rank.board, Nanoseconds(0), Nanoseconds(0), Nanoseconds(0), false};",
                                        "clock.seen = rank.board, clock.age = Nanoseconds(0);"),
    "the ranks that wait are looked at": (DETECTOR, "waits_for_data ? verdict.waiting : verdict.culprits", "verdict.waiting"),
    "time runs while a rank is stopped": (DETECTOR, "follow(ranks, stopped_.empty() ? elapsed : Nanoseconds(0));", "follow(ranks, elapsed);"),
    "heartbeats are no progress": (DETECTOR, "if (!is_waited_for) facts.progress_age = facts.age;", "facts.progress_age = facts.age;"),
    "threads that may help are not counted": (DETECTOR, "rank.board.waiting_threads >= rank.board.calling_threads", "true"),
    "a receive that nobody waits for is a stall": (VERDICT, "|| !transfer.is_waited_for) {", ") {"),
    "the first of a chain is blamed": (ROOTS, "is_root[i] = root.kind != VerdictKind::not_called || !root.culprits.empty();",
                                         "is_root[i] = true; root.culprits = verdicts[i].culprits;"),
    "a stopped rank is one that has not called": (VERDICT, "rank.process && rank.process->is_stopped(); })},", "false; })},"),
    "groups of one name are one group": (VIEW, "return identity != 0 ?", "return false ?"),
}


def compile_to(source: pathlib.Path, target: pathlib.Path) -> None:
    flags = ["-std=c++20", "-O0", "-w", *(f"-I{ROOT / folder}" for folder in ("src", "include", "tests"))]
    done = subprocess.run([CXX, *flags, "-c", source, "-o", target], capture_output=True, text=True)
    assert done.returncode == 0, f"{source}: {done.stderr[:3000]}"


def link(objects: list[pathlib.Path], target: pathlib.Path) -> None:
    catch = next(path for path in map(pathlib.Path, ("/usr/lib/libCatch2WithMain.a", "/usr/lib/x86_64-linux-gnu/libCatch2WithMain.a",
                                                     "/usr/lib/aarch64-linux-gnu/libCatch2WithMain.a")) if path.exists())
    done = subprocess.run([CXX, *objects, BUILD / "lib/libddp_base.a", catch, "-o", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def finds_it(name: str, folder: pathlib.Path, objects: dict[str, pathlib.Path], tests: list[pathlib.Path]) -> bool:
    source, old, new = MUTATIONS[name]
    text = (ROOT / source).read_text()
    assert text.count(old) == 1, f"{name}: '{old}' stands {text.count(old)} times in {source}"
    place = folder / name.replace(" ", "_").replace("'", "")
    place.mkdir()
    broken = place / pathlib.Path(source).name
    broken.write_text(text.replace(old, new))
    compile_to(broken, place / "broken.o")
    link([*(path for other, path in objects.items() if other != source), place / "broken.o", *tests], place / "tests")
    return subprocess.run([place / "tests"], capture_output=True, timeout=300).returncode != 0


with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    folder = pathlib.Path(name)
    objects = {source: folder / f"{pathlib.Path(source).stem}.o" for source in SOURCES}
    tests = [folder / f"{test.replace('/', '_')}_test.o" for test in TESTS]
    inputs = [(ROOT / source, path) for source, path in objects.items()]
    inputs += [(ROOT / f"tests/unit/launcher/{test}_test.cpp", path) for test, path in zip(TESTS, tests)]
    list(pool.map(lambda pair: compile_to(*pair), inputs))
    link([*objects.values(), *tests], folder / "tests")
    subprocess.run([folder / "tests"], check=True, stdout=subprocess.DEVNULL)
    results = dict(zip(MUTATIONS, pool.map(lambda one: finds_it(one, folder, objects, tests), MUTATIONS)))
missed = [name for name, found in results.items() if not found]
for name in missed:
    print(f"not found: {name}")
print(f"{len(results) - len(missed)} of {len(results)} mutations found")
sys.exit(1 if missed else 0)

#!/usr/bin/env python3
"""mutations.py BUILD_DIR [WORD]: breaks the code that decides about hangs in some forty ways, one at a time. On each it
runs the tests of the decision, in virtual time: replay_test.py, with the traces of the zoo's programs, and the unit
tests. Prints which of them found the fault. Fails if none did, or if the traces found fewer than 20.

With a word, only mutations whose names have it are tested. Needs a build with tests. Each mutation is compiled alone
and linked to the rest, which takes about a minute of processor time.
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
SOURCES = ["src/launcher/run/watchdog/stall_policy.cpp", "src/launcher/run/watchdog/judge.cpp",
           "src/launcher/run/ranks/waits.cpp", "src/launcher/run/ranks/activity_meter.cpp",
           "src/launcher/run/ranks/worker_page.cpp", "src/launcher/run/ranks/root_causes.cpp",
           "src/launcher/run/ranks/rank_times.cpp", "src/launcher/run/ranks/rank_book.cpp"]
# The decision consists of these files, too.
PARTS = [f"src/launcher/{name}.cpp" for name in (
    "ranks/group_members", "ranks/rank_state", "watchdog/hang_detector", "watchdog/silence", "watchdog/verdict_text")]
# zoo_replay consists of these files and the ones above.
REPLAY = ["tests/zoo/zoo_replay.cpp", "src/launcher/run/ranks/shown_ranks.cpp"]
TESTS = ["watchdog/stall_policy", "watchdog/judge", "watchdog/silence", "watchdog/hang_detector",
         "watchdog/hang_detector_reports", "watchdog/hang_detector_heartbeats", "watchdog/hang_detector_groups",
         "watchdog/hang_detector_gpu", "ranks/rank_book", "ranks/rank_times", "ranks/root_causes", "ranks/waits",
         "ranks/activity_meter", "ranks/worker_page"]
POLICY, JUDGE, WAITS, METER, VIEW, ROOTS, TIMES, BOOK = SOURCES

# Maps the name of a mutation to the file, a text that occurs in it once, and the replacement.
MUTATIONS = {
    "a partial verdict ends the job": (POLICY, "|| facts.is_partial ||", "||"),
    "a transfer counts from its call": (JUDGE, "std::min(since(times_of(rank).progress_at()), wait) : wait", "since(times_of(rank).progress_at()) : wait"),
    "a collective counts from its call": (JUDGE, "differs(verdict.kind) ? age : std::min(age, waited);", "age;"),
    "a rank is given up where nobody waits": (POLICY, "if (facts.kind == VerdictKind::behind || facts.is_partial", "if (facts.is_partial"),
    "age counts instead of signs of life": (POLICY, "Limit{plan.still, *facts.still_for,", "Limit{plan.still, facts.age,"),
    "a rank that has ended is waited for": (POLICY, "Limit{limits::kHangFirstWord, facts.age, \"an exited rank cannot make this call\"}",
                                            "Limit{10 * limits::kHangFirstWord, facts.age, \"an exited rank cannot make this call\"}"),
    "a circle needs no proof": (POLICY, " || !facts.is_proven)", ")"),
    "work extends the user's limit": (POLICY, "Limit users{*plan.timeout, facts.progress_age,",
                                      "Limit users{*plan.timeout, facts.still_for.value_or(facts.age),"),
    "learnt limits end jobs by default": (POLICY, "plan.limit == HangLimit::learnt && facts.is_warm &&", "facts.is_warm &&"),
    "the first word is late": (POLICY, "constexpr int kPauses = 4;", "constexpr int kPauses = 40;"),
    "every report is a warning": (POLICY, "judgement.is_warning = ", "judgement.is_warning = true || "),
    "a node that sees a part judges first": (POLICY, "limit->time += limits::kHangFirstWord;", ""),
    "more time is not given": (POLICY, "facts.more_time <= std::max(limit.left(), Nanoseconds(0))", "true"),
    "a rank that worked alone is ended without a report": (POLICY, "users.passed = std::min(", "users.passed = std::max("),
    "starving is no sign of life": (METER, "window_->runnable_samples >= (window_->samples > 3 ? thresholds_.runnable_samples : 1)", "false"),
    "helpers that wake for a moment are starved": (METER, "if (!done.waited) return", "if (true) return"),
    "new processes are no sign of life": (METER, "if (done.processes_changed)", "if (false)"),
    "network traffic is no sign of life": (METER, "if (done.network_bytes >= thresholds_.network_bytes) return Sign::network;", ""),
    "a GPU that works is no sign of life": (METER, "return gpu_works ? Sign::gpu : Sign::none;", "return Sign::none;"),
    "what could not be read counts as nothing": (METER, "activity.is_complete ? length : Nanoseconds(0)", "length"),
    "output is no sign of life": (METER, "if (done.has_printed)", "if (false)"),
    "watchdog threads are signs of life": (METER, "cpu_share >= thresholds_.cpu_share", "cpu_share > 0"),
    "one sign does not make a rank alive": (METER, "activity.still_for + known : Nanoseconds(0);", "activity.still_for + known : activity.still_for;"),
    "time without samples counts": (METER, "if (elapsed > thresholds_.longest_gap)", "if (false)"),
    "spinning counts as data": (METER, "activity.unmoved_for = has_moved ?", "activity.unmoved_for = activity.last_sign != Sign::none ?"),
    "data in shared memory does not count": (METER, "done.handed_on > 0", "false"),
    "who waits for others to come is reported late": (POLICY, "facts.kind == VerdictKind::silent && facts.still_for", "false"),
    "where all wait their work counts": (JUDGE, "since(std::max(times.data_at(), times.sign_at())) : since(times.data_at());",
                                         "since(std::max(times.data_at(), times.sign_at())) : since(times.sign_at());"),
    "heartbeats are no sign of life": (TIMES, "progress_at_ = sign_at_ = data_at_ = now;", "progress_at_ = now;"),
    "the ranks that wait are looked at": (JUDGE, "verdict.waiting.empty()) return {verdict.culprits, false};", "verdict.waiting.empty()) return {verdict.waiting, false};"),
    "time runs while a rank is stopped": (BOOK, "clock_.set_standing_still(!picture_.stopped.empty());", ""),
    "time before a rank is waited for counts": (JUDGE, "facts.still_for = std::min(*still, facts.age)", "facts.still_for = *still"),
    "heartbeats are no progress": (JUDGE, "if (!ages.empty()) progress = is_circle ? std::ranges::min(ages) : std::ranges::max(ages);",
                                   "progress = age;"),
    "threads that may help are not counted": (ROOTS, "page.calling_threads <= page.blocked_threads &&", ""),
    "threads that have called nothing are not counted": (ROOTS, "rank.process->threads->free == 0;", "rank.process->threads->free >= 0;"),
    "what was only begun counts as a wait": (ROOTS, "return verdict.is_transfer ? 1 : group->blocked;", "return 1;"),
    "who waits for something that is not shown is blamed": (ROOTS, "std::erase_if(root.culprits, waits_with_all);", ";"),
    "another rank's extension moves the limit": (JUDGE, "if (names_none(verdict) || verdict.blames(rank.rank)) until", "until"),
    "a rank that ended before init is not seen": (WAITS, "rank.has_ended && rank.page.worlds_entered < entered", "false"),
    "a receive without a waiting thread is a stall": (WAITS, "|| !transfer.is_waited_for) {", ") {"),
    "the first of a chain is blamed": (ROOTS, "is_root.push_back(root.kind != VerdictKind::not_called || !root.culprits.empty());",
                                         "is_root.push_back(true); root.culprits = wait.culprits;"),
    "a stopped rank is one that has not called": (WAITS, "return rank.process && rank.process->is_stopped();", "return false;"),
    "a call that no rank has begun is waited for": (WAITS, "(member.rank->page.continuations > 0 || group.blocked == 0)", "member.rank->page.continuations > 0"),
    "data of ranks that wait is no sign of life": (JUDGE, "waits_for_data || (!verdict.blames(rank.rank) && only_waits(rank)));", "waits_for_data);"),
    "a stall is blamed from its first moment": (JUDGE, "facts.blamed_for = since(stall.blamed_since);", "facts.blamed_for = stall.age;"),
    "groups of one name are one group": (VIEW, "return identity != 0 ?", "return false ?"),
}


def compile_to(source: pathlib.Path, target: pathlib.Path) -> None:
    # The replay takes longer than the compiler, and the unit tests do not.
    optimisation = "-O0" if "unit" in source.parts else "-O1"
    flags = ["-std=c++20", optimisation, "-w", *(f"-I{ROOT / folder}" for folder in ("src", "include", "tests"))]
    done = subprocess.run([CXX, *flags, "-c", source, "-o", target], capture_output=True, text=True)
    assert done.returncode == 0, f"{source}: {done.stderr[:3000]}"


def link(objects: list[pathlib.Path], target: pathlib.Path, *libraries: pathlib.Path) -> None:
    command = [CXX, *objects, BUILD / "lib/libddp_base.a", *libraries, "-o", target]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def catch() -> list[pathlib.Path]:
    """Returns the libraries of Catch2: version 2 has one, version 3 has two."""
    folders = map(pathlib.Path, ("/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"))
    names = ("libCatch2WithMain.a", "libCatch2Main.a", "libCatch2.a")
    return [folder / name for folder in folders for name in names if (folder / name).exists()]


class Tests:
    """Holds the objects of the decision, of the program that replays traces, and of the unit tests."""

    def __init__(self, folder: pathlib.Path, pool: concurrent.futures.Executor) -> None:
        self.folder = folder
        compiled = {source: folder / f"{source.replace('/', '_')}.o"
                    for source in SOURCES + PARTS + REPLAY + [f"tests/unit/launcher/{test}_test.cpp" for test in TESTS]}
        list(pool.map(lambda pair: compile_to(ROOT / pair[0], pair[1]), compiled.items()))
        self.decision = {source: compiled.pop(source) for source in SOURCES}
        self.parts = [compiled.pop(source) for source in PARTS]
        self.replay = [compiled.pop(source) for source in REPLAY]
        self.units = list(compiled.values())

    def which_fail(self, place: pathlib.Path, decision: list[pathlib.Path]) -> list[str]:
        link([*decision, *self.parts, *self.replay], place / "zoo_replay")
        link([*decision, *self.parts, *self.units], place / "units", *catch())
        runs = {"traces": [sys.executable, ROOT / "tests/zoo/replay_test.py", place], "units": [place / "units"]}
        return [name for name, words in runs.items() if subprocess.run(words, capture_output=True, timeout=600).returncode != 0]

    def which_find(self, name: str) -> list[str]:
        source, old, new = MUTATIONS[name]
        text = (ROOT / source).read_text()
        assert text.count(old) == 1, f"{name}: '{old}' stands {text.count(old)} times in {source}"
        place = self.folder / name.replace(" ", "_").replace("'", "")
        place.mkdir()
        broken = place / pathlib.Path(source).name
        broken.write_text(text.replace(old, new))
        compile_to(broken, place / "broken.o")
        return self.which_fail(place, [place / "broken.o" if other == source else path for other, path in self.decision.items()])


with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    tests = Tests(pathlib.Path(name), pool)
    failed = tests.which_fail(tests.folder, list(tests.decision.values()))
    assert not failed, f"{failed} fail although nothing is broken"
    wanted = [name for name in MUTATIONS if all(word in name for word in sys.argv[2:])]
    running = {pool.submit(tests.which_find, name): name for name in wanted}
    results = {}
    for done in concurrent.futures.as_completed(running):
        name, found = running[done], done.result()
        results[name] = found
        print(f"{' and '.join(found) or 'NOT FOUND':17}  {name}", flush=True)
by_traces = sum("traces" in found for found in results.values())
missed = sum(not found for found in results.values())
print(f"{len(results) - missed} of {len(results)} mutations found, {by_traces} by the traces")
sys.exit(1 if missed or (by_traces < 20 and not sys.argv[2:]) else 0)

#!/usr/bin/env python3
"""mutations.py BUILD_DIR [WORD]: breaks the code that decides about hangs in some eighty ways, one at a time. On each it
runs the tests of the decision, in virtual time: replay_test.py, with the traces of the zoo's programs, and the unit
tests. Prints which of them found the fault. Fails if none did, or if the traces found fewer than 20.

With a word, only mutations whose names have it are tested. Needs a build with tests. Each mutation is compiled alone
and linked to the rest. Tests stop at the first fault.
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
           "src/launcher/run/ranks/rank_times.cpp", "src/launcher/run/ranks/rank_book.cpp",
           "src/launcher/run/watchdog/hang_detector.cpp"]
# The decision consists of these files, too.
PARTS = [f"src/launcher/run/{name}.cpp" for name in (
    "ranks/group_members", "ranks/launches", "watchdog/verdict_text")]
# zoo_replay consists of these files and the ones above.
REPLAY = ["tests/zoo/zoo_replay.cpp", "src/launcher/run/ranks/shown_ranks.cpp"]
TESTS = ["watchdog/stall_policy", "watchdog/judge", "watchdog/judge_silence", "watchdog/hang_detector", "ranks/rank_book",
         "ranks/rank_times", "ranks/root_causes", "ranks/waits", "ranks/activity_meter", "ranks/worker_page"]
POLICY, JUDGE, WAITS, METER, VIEW, ROOTS, TIMES, BOOK, DETECTOR = SOURCES

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
    "what a record of an ended rank lacks is certain": (JUDGE, "verdict.is_doubtful && is_sampled(verdict, picture_.ranks) ?", "false ?"),
    "data is no progress of a rank that only stacks show": (JUDGE, "verdict.is_by_stack ? times.data_at() :", "false ? times.data_at() :"),
    "a circle counts from its first rank": (JUDGE, "is_circle ? std::ranges::min(ages) :", "false ? std::ranges::min(ages) :"),
    "a transfer counts from the first of its calls": (JUDGE, "if (all_wait(verdict.kind) && verdict.called_at != 0", "if (false && verdict.called_at != 0"),
    "what was only begun is waited for": (JUDGE, "facts.unawaited = facts.age - awaited_for(verdict, facts.age);", ""),
    "a GPU without counters moves no data": (JUDGE, "if (uses_gpu(rank) && !rank.activity->counts_gpu_data) return std::nullopt;", ""),
    "a rank that cannot be read is still": (JUDGE, "if (!rank.activity || !rank.activity->is_complete)", "if (!rank.activity)"),
    "calls that are not described are judged": (JUDGE, "if (stall->verdict.is_described()) ", ""),
    "a culprit that waits itself is judged alone": (JUDGE, "const bool concerns_all = waits_itself(verdict);", "const bool concerns_all = false;"),
    "others' progress is none of a culprit that waits itself": (JUDGE, "  if (waits_itself(verdict)) {\n", "  if (false) {\n"),
    "continuations of a rank that waits do not count": (JUDGE, "return rank.page.continuations > 0 ?", "return false ?"),
    "the oldest verdict comes before a certain one": (JUDGE, "std::tuple key(is_certain, !may_be_resolved(verdict),", "std::tuple key(false, false,"),
    "old groups are looked at": (JUDGE, "if (times.somebody_waits) longest", "if (true) longest"),
    "ranks that exchange data are blamed by stacks": (ROOTS, "if (root.is_by_stack) leave_out_those_that_move_data(ranks, root);", ""),
    "a continuation is no acting thread": (ROOTS, "if (page.continuations > 0) return true;", ""),
    "waits with a time-out are for ever": (ROOTS, "page.blocked_threads > 0 && blocked >=", "blocked >="),
    "a thread that acts beside a wait is not seen": (ROOTS, "if (may_wait(rank) && !has_acting_thread(rank))", "if (may_wait(rank))"),
    "pauses are not learnt": (BOOK, "if (times.is_warm) picture_.longest_pause =", "if (false) picture_.longest_pause ="),
    "the moments of a tracer are stops": (BOOK, "const bool is_passing = rank.process->state == 't' &&", "const bool is_passing = false &&"),
    "one sample without blame ends it": (BOOK, ">= limits::kBlameGap;", "> std::chrono::nanoseconds(0);"),
    "a wait found in stacks begins when it is found": (BOOK, "if (seen.front().is_by_stack)", "if (false)"),
    "a program's continuation is a wait": (TIMES, "rank.has_ended || rank.page.continuations > 0 ? 0", "rank.has_ended ? 0"),
    "short interruptions end a wait": (TIMES, "now - interrupted_ <= limits::kPollingPause", "false"),
    "the pause before a wait goes on counts": (TIMES, "waits_since_ += now - free_since_;", ""),
    "exchanged data is no progress with Gloo": (TIMES, "uses_gloo_ = rank.is_torch && !uses_gpu(rank);", "uses_gloo_ = false;"),
    "exchanged data is progress with NCCL": (TIMES, "uses_gloo_ = rank.is_torch && !uses_gpu(rank);", "uses_gloo_ = rank.is_torch;"),
    "programs without the runtime must not sleep": (JUDGE, "return plan.timeout ||", "return true ||"),
    "fewer heartbeats are not behind": (JUDGE, ": fewest < most ? with_fewest :", ":"),
    "who fell silent later is not behind": (JUDGE, "> silence.age / 2)", ">= silence.age)"),
    "waits for others to come do not count for the user's limit": (JUDGE, "if (plan.timeout) silence = wait_for_others_to_come(picture);", ""),
    "the end of a rank is no progress for those that wait for it to come": (JUDGE, "(rank.has_ended ? times.settled_since() : times.progress_at())", "times.progress_at()"),
    "the end of a rank is no sign of life": (JUDGE, "if (rank.has_ended) return times.settled_since();", "if (rank.has_ended) return JobTime{};"),
    "a wait for one's own continuation is for others": (JUDGE, "rank.page.waiting_threads > rank.page.continuations", "rank.page.waiting_threads > 0"),
    "a pause between two waits is silence": (JUDGE, "(!rank.activity || times.pauses())", "(!rank.activity)"),
    "work of ranks that wait for others to come counts": (JUDGE, "only_waits(rank) ? times.data_at() : times.sign_at()", "times.sign_at()"),
    "signs of life of a silent job do not count": (JUDGE, "only_waits(rank) ? times.data_at() : times.sign_at()", "times.data_at()"),
    "a stall is reported with each sample": (DETECTOR, "} else if (!reported_ && !picture.is_part", "} else if (!picture.is_part"),
    "a node that sees a part reports what it sees": (DETECTOR, "!reported_ && !picture.is_part && ", "!reported_ && "),
    "a stall is warned of with each sample": (DETECTOR, "!has_warned_ && ", ""),
    "a silent job goes on when its state is uncertain": (DETECTOR, "if (judgement.is_unsure && is_without_calls(reported_->kind)) return std::nullopt;", ""),
    "warnings come at equal intervals": (DETECTOR, "(std::int64_t{1} << std::min(times_over_, 30)) - 1", "std::int64_t{times_over_}"),
    "a rank that gave up is forgotten": (DETECTOR, "now - seen_at_ > limits::kHangRemembered", "now > seen_at_"),
    "a rank is named where data may move": (DETECTOR, "return verdict.is_partial || all_wait(verdict.kind) ?", "return verdict.is_partial ?"),
    "a job without a timeout is judged": (DETECTOR, "if (plan_.is_off() || ", "if ("),
    "stalls are reported while a rank is stopped": (DETECTOR, "if (!picture.stopped.empty()) {", "if (false) {"),
    "a request for the state of the ranks changes it": (DETECTOR, "RankBook book = book_;", "RankBook& book = const_cast<RankBook&>(book_);"),
}


def compile_to(source: pathlib.Path, target: pathlib.Path, *options: str) -> None:
    flags = ["-std=c++20", "-O1", "-w", *(f"-I{ROOT / folder}" for folder in ("src", "include", "tests"))]
    done = subprocess.run([CXX, *flags, *options, "-c", source, "-o", target], capture_output=True, text=True)
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
        self.header = folder / "precompiled.h"  # most of the time, the compiler reads what all files include
        compile_to(ROOT / "tests/support/precompiled.h", folder / "precompiled.h.gch", "-x", "c++-header")
        compiled = {source: folder / f"{source.replace('/', '_')}.o"
                    for source in SOURCES + PARTS + REPLAY + [f"tests/unit/launcher/run/{test}_test.cpp" for test in TESTS]}
        list(pool.map(lambda pair: self.compile(ROOT / pair[0], pair[1]), compiled.items()))
        self.decision = {source: compiled.pop(source) for source in SOURCES}
        self.parts = [compiled.pop(source) for source in PARTS]
        self.replay = [compiled.pop(source) for source in REPLAY]
        self.units = list(compiled.values())

    def compile(self, source: pathlib.Path, target: pathlib.Path) -> None:
        compile_to(source, target, "-include", str(self.header))

    def which_fail(self, place: pathlib.Path, decision: list[pathlib.Path]) -> list[str]:
        link([*decision, *self.parts, *self.replay], place / "zoo_replay")
        link([*decision, *self.parts, *self.units], place / "units", *catch())
        runs = {"traces": [sys.executable, ROOT / "tests/zoo/replay_test.py", place, "--first"], "units": [place / "units", "--abort"]}
        return [name for name, words in runs.items() if subprocess.run(words, capture_output=True, timeout=600).returncode != 0]

    def which_find(self, name: str) -> list[str]:
        source, old, new = MUTATIONS[name]
        text = (ROOT / source).read_text()
        assert text.count(old) == 1, f"{name}: '{old}' stands {text.count(old)} times in {source}"
        place = self.folder / name.replace(" ", "_").replace("'", "")
        place.mkdir()
        broken = place / pathlib.Path(source).name
        broken.write_text(text.replace(old, new))
        self.compile(broken, place / "broken.o")
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

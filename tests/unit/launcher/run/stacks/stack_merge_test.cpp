#include "launcher/run/stacks/stack_merge.h"

#include <algorithm>
#include <condition_variable>
#include <string>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

using Frames = std::vector<std::string>;
using Lines = std::vector<std::string>;

RankStacks rank_at(int rank, Frames frames) {
  return {rank, StackSource::gdb, {{100 + rank, "train", std::move(frames)}, {200 + rank, "other", {"poll"}}}, {}};
}

Lines lines_of(const std::vector<RankStacks>& ranks, std::size_t most_lines = 10) {
  return essence(merge_stacks(ranks), most_lines);
}

// Returns the line for one rank alone.
std::string line_of(Frames frames) {
  const Lines lines = lines_of({rank_at(1, std::move(frames))}, 1);
  return lines.empty() ? "" : lines[0];
}

}  // namespace

TEST_CASE("ranks at the same place are merged, and the smallest group is listed first") {
  const Frames waits = {"poll (libc.so.6+0x12)", "ddp::Work::wait (train+0xabc)", "main (train+0x1)"};
  const Frames waits_too = {"poll (libc.so.6+0x14)", "ddp::Work::wait (train+0xabc)", "main (train+0x1)"};
  const Frames loads = {"read (libc.so.6+0x12)", "load (train.cpp:12)", "main (train+0x1)"};
  const Frames loads_elsewhere = {"read (libc.so.6+0x12)", "load (train.cpp:13)", "main (train+0x1)"};
  const std::vector<RankStacks> ranks = {
      rank_at(3, waits_too),       rank_at(0, waits),           rank_at(4, loads), rank_at(2, waits),
      rank_at(1, loads_elsewhere), {5, StackSource::gdb, {}, {"gdb: no"}}, rank_at(6, {}),    rank_at(3, waits_too)};
  const std::vector<MergedStack> expected = {
      {{1}, "train", loads_elsewhere}, {{4}, "train", loads}, {{0, 2, 3}, "train", waits}};
  CHECK(merge_stacks(ranks) == expected);
  CHECK(merge_stacks({}).empty());
}

TEST_CASE("addresses do not distinguish stacks, and line numbers do") {
  const auto merged = [](const std::string& one, const std::string& other) {
    return merge_stacks(std::vector{rank_at(0, {one}), rank_at(1, {other})}).size() == 1;
  };
  CHECK(merged("?? (0x7f12ab)", "?? (0x55e2)"));
  CHECK(merged("f (a.so+0xAB)", "f (a.so+0x0)"));
  CHECK_FALSE(merged("f (a.py:12)", "f (a.py:13)"));
  CHECK_FALSE(merged("f0 (a.so+0x1)", "f1 (a.so+0x1)"));
  CHECK_FALSE(merged("f (a.so+0x1)", "f (b.so+0x1)"));
}

TEST_CASE("each place takes one line") {
  const Frames waits = {"syscall (libc.so.6+0x1)",
                        "ddp::WaitForAll(int) (train+0x1)",
                        "ddp::Work::wait() (train+0x2)",
                        "train_epoch(Model&) (train+0x3)",
                        "main (train+0x4)",
                        "__libc_start_main (libc.so.6+0x5)",
                        "_start (train+0x6)"};
  const Frames loads = {"read (libc.so.6+0x1)", "load(int) (train+0x7)", "train_epoch(Model&) (train+0x3)",
                        "main (train+0x4)"};
  CHECK(lines_of({rank_at(0, waits), rank_at(1, loads), rank_at(2, waits), rank_at(3, waits)}) ==
        Lines{"rank 1: read ← load ← train_epoch ← main",
              "ranks 0, 2, 3: ddp::WaitForAll ← ddp::Work::wait ← train_epoch ← main"});
  CHECK(lines_of({}).empty());
  CHECK(lines_of({rank_at(0, waits)}, 0).empty());
}

TEST_CASE("uninformative frames are left out") {
  // This stack is from gdb.
  CHECK(line_of(
            {"__futex_abstimed_wait_common64 (futex-internal.c:57)", "__GI___futex_abstimed_wait_cancelable64 (f.c:1)",
             "__pthread_cond_wait_common (pthread_cond_wait.c:503)", "___pthread_cond_wait (pthread_cond_wait.c:618)",
             "std::condition_variable::wait<...> (condition_variable:102)",
             "model::Group<float>::all_reduce (hung.cpp:14)", "train_epoch (hung.cpp:22)", "main (hung.cpp:28)"}) ==
        "rank 1: model::Group<float>::all_reduce (hung.cpp:14) ← train_epoch (hung.cpp:22) ← main (hung.cpp:28)");
  // A lock of a mutex is shown.
  CHECK(line_of({"futex_wait (futex-internal.h:146)", "__GI___lll_lock_wait (lowlevellock.c:49)",
                 "lll_mutex_lock_optimized (a.c:48)", "___pthread_mutex_lock (libc.so.6)", "load (train)",
                 "?? (libstdc++.so.6)", "start_thread (libc.so.6)", "clone3 (libc.so.6)"}) ==
        "rank 1: ___pthread_mutex_lock ← load");
  // This stack is from eu-stack, of a stripped program.
  CHECK(line_of({"epoll_wait (libc.so.6)", "?? (train)", "serve(int) (libserve.so)", "?? (train)",
                 "__libc_start_call_main (libc.so.6)", "_start (train)"}) == "rank 1: serve");
  // This stack is from py-spy.
  CHECK(line_of({"clock_nanosleep (libc.so.6)", "time_sleep (libpython3.11.so.1.0)", "Model.forward (train.py:6)",
                 "train_epoch.<locals>.<listcomp> (train.py:8)", "<module> (train.py:10)",
                 "_run_code (<frozen runpy>:88)", "_run_module_as_main (<frozen runpy>:198)"}) ==
        "rank 1: time_sleep ← Model.forward (train.py:6) ← train_epoch.<locals>.<listcomp> (train.py:8) ← <module>");
  CHECK(line_of({"<signal handler called>", "train (a.cpp:1)"}) == "rank 1: <signal handler called> ← train (a.cpp:1)");
}

TEST_CASE("consecutive interpreter frames are shown as one word") {
  CHECK(line_of({"__GI___clock_nanosleep (clock_nanosleep.c:48)", "time_sleep (timemodule.c:383)",
                 "cfunction_vectorcall_O (methodobject.c:514)", "_PyEval_EvalFrameDefault (ceval.c:4769)",
                 "call_back (native.cpp:3)", "PyObject_Vectorcall (call.c:299)", "_PyEval_Vector (ceval.c:6434)",
                 "pymain_run_file (main.c:379)", "Py_RunMain (main.c:680)", "Py_BytesMain (main.c:734)",
                 "__libc_start_call_main (a.h:58)", "__libc_start_main_impl (libc-start.c:360)", "_start"}) ==
        "rank 1: time_sleep (timemodule.c:383) ← Python ← call_back (native.cpp:3) ← Python");
}

TEST_CASE("only the ends of calls within Python libraries are shown") {
  const RankStacks stacks{1,
                          StackSource::py_spy,
                          {{7,
                            "",
                            {"select (python3.11/selectors.py:415)", "poll (multiprocessing/connection.py:257)",
                             "get (multiprocessing/queues.py:113)", "__next__ (data/dataloader.py:701)",
                             "train (train.py:8)", "run (torch/launcher.py:3)", "<module> (train.py:20)"}}},
                          {}};
  CHECK(essence(merge_stacks(std::span(&stacks, 1)), 8) ==
        std::vector<std::string>{"rank 1: get (queues.py:113) ← __next__ (dataloader.py:701) ← train (train.py:8) ← "
                                 "run (launcher.py:3)",
                                 "    ← <module> (train.py:20)"});
}

TEST_CASE("brackets in a file name do not hide the function") {
  CHECK(line_of({"pause (libc.so.6+0x1)", "misbehave (e[31mvil+0x2)", "main (e[31mvil+0x3)"}) ==
        "rank 1: pause ← misbehave ← main");
  CHECK(line_of({"run(int (*)(int)) (a(b+0x2)", "main (a)b+0x3)"}) == "rank 1: run ← main");
}

TEST_CASE("a stack with only unknown frames still shows something") {
  CHECK(line_of({"?? (libfoo.so+0x12)"}) == "rank 1: ?? (libfoo.so+0x12)");
  CHECK(line_of({"futex_wait (libc.so.6)", "syscall (libc.so.6)", "?? (train)", "?? (libfoo.so)", "?? (train)",
                 "__libc_start_main (libc.so.6)", "?? (train)"}) == "rank 1: syscall ← ?? (train) ← ?? (libfoo.so)");
  CHECK(line_of({"futex_wait (libc.so.6)", "syscall (libc.so.6)", "?? (train)", "?? (libfoo.so)", "?? (train)",
                 "_start (train)"}) == "rank 1: syscall ← ?? (train) ← ?? (libfoo.so)");
  CHECK(line_of({"futex_wait (libc.so.6)", "syscall (libc.so.6)"}) == "rank 1: syscall");
  CHECK(line_of({"_start (train)"}) == "rank 1: _start");
  CHECK(line_of({"main (a.cpp:1)"}) == "rank 1: main (a.cpp:1)");
  CHECK(line_of({""}) == "rank 1: ");
}

TEST_CASE("stacks with the same text share a line") {
  CHECK(lines_of({rank_at(0, {"poll (libc.so.6)", "wait (train)", "main (train)"}),
                  rank_at(1, {"sched_yield (libc.so.6)", "wait (train)", "main (train)"}),
                  rank_at(2, {"load (train)", "main (train)"}), rank_at(3, {"clock_gettime", "main (train)"}),
                  rank_at(4, {"load (train)", "main (train)"})}) ==
        Lines{"rank 3: clock_gettime ← main", "ranks 0, 1: wait ← main", "ranks 2, 4: load ← main"});
}

TEST_CASE("a long stack takes several lines if there is room") {
  Frames frames;
  for (int i = 0; i < 12; ++i)
    frames.push_back("a_function_of_thirty_bytes_" + std::to_string(100 + i) + " (train.cpp:1)");
  frames.push_back("main (train.cpp:2)");
  const auto columns_of = [](const std::string& line) {
    return std::count_if(line.begin(), line.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  };
  for (const std::size_t most : {1u, 2u, 3u, 10u}) {
    const Lines lines = lines_of({rank_at(0, frames)}, most);
    CHECK(lines.size() == std::min<std::size_t>(most, 3));
    CHECK(lines[0].starts_with("rank 0: a_function_of_thirty_bytes_100 ← a_function"));  // the places are left out
    for (const std::string& line : lines) CHECK(columns_of(line) <= 118);
    for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i].starts_with("    ← a_function"));
    CHECK(lines.back().ends_with(" ← ..."));
  }
  frames.erase(frames.begin() + 3, frames.end());
  CHECK(lines_of({rank_at(0, frames)}).size() == 2);
  CHECK(lines_of({rank_at(0, frames)})[0].ends_with("(train.cpp:1)"));
}

TEST_CASE("stacks beyond the limit are only counted, and long lists of ranks are shortened") {
  std::vector<RankStacks> ranks;
  for (int rank = 0; rank < 100; ++rank) {
    std::string function = rank % 2 == 0 ? "even" : "odd";
    if (rank < 5) function = {'f', static_cast<char>('a' + rank)};
    ranks.push_back(rank_at(rank, {function}));
  }
  CHECK(lines_of(ranks, 3) == Lines{"rank 0: fa", "rank 1: fb", "ranks 2-99: 5 other stacks"});
  CHECK(lines_of(ranks, 1) == Lines{"ranks 0-99: 7 other stacks"});
  CHECK(lines_of(ranks, 7)[5] == "ranks 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, ... (47 in all): even");
}

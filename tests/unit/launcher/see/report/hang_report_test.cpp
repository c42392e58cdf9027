#include "launcher/see/report/hang_report.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "launcher/run/watchdog/verdict_text.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

RankView rank_at(int rank, std::uint64_t called, std::uint64_t finished) {
  RankView view;
  view.activity.emplace();
  view.rank = rank;
  view.pid = 4000 + rank;
  view.process = ProcessSample{'S', 0, 0, "futex_wait"};
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.groups.push_back({"world", rank, 2, 0, called, called, finished, 0, 0});
  view.calls = {{{called, 7, 5, "all_reduce sum f32[8]", "bucket 0", "train.cpp:88"}}};
  return view;
}

HangNews stall(HangNews::Kind kind) {
  HangNews news;
  news.kind = kind;
  news.verdict = {VerdictKind::not_called, "world", 2, 7, "all_reduce sum f32[8] ('bucket 0')", {1}, {0}, {}};
  news.age = 12s;
  news.judgement = {HangClass::users_limit, 5s, false, 18s, 30s, "--hang-timeout"};
  news.ends_job = true;
  news.ranks = {rank_at(0, 7, 6), rank_at(1, 6, 6)};
  return news;
}

}  // namespace

TEST_CASE("a stall is reported with its culprit and the next step") {
  HangNews news = stall(HangNews::Kind::stalled);
  news.ranks[1].page.phase = RankPhase::evaluation;
  news.ranks[1].page.phase_name = "validation";
  news.ranks[1].page.phase_place = "train.cpp:171";
  news.ranks[1].page.phase_since = 4'000'000'000;
  news.ranks[1].activity->cpu_share = 0.031;
  CHECK(
      hang_report(news, 15'000'000'000) ==
      std::vector<std::string>{
          "rank 1 has not called all_reduce sum f32[8] ('bucket 0') (#7 of world), in which rank 0 waits  [DDP-H03 not "
          "called], for 12.0 s",
          "  rank 1 (pid 4001): evaluation 'validation' for 11.0 s at train.cpp:171; last call: all_reduce sum f32[8] "
          "('bucket 0') #6 at train.cpp:88, finished; sleeping in futex_wait, CPU 3 %",
          "  the job will be terminated in 18.0 s; the limit is 30.0 s (--hang-timeout)"});
}

TEST_CASE("a hang is reported with all ranks") {
  const auto lines = hang_report(stall(HangNews::Kind::hung), 0);
  REQUIRE(lines.size() == 4);
  CHECK(lines[2] ==
        "  rank 0 (pid 4000): training; waits in all_reduce sum f32[8] ('bucket 0') #7 at train.cpp:88; sleeping in "
        "futex_wait, CPU 0 %");
  CHECK(lines[3] == "  the limit was 30.0 s (--hang-timeout); the job is terminated");
  HangNews warning = stall(HangNews::Kind::hung);
  warning.ends_job = false;
  CHECK(hang_report(warning, 0).back().find("the job continues (--hang-action)") != std::string::npos);
}

TEST_CASE("the hang report contains the reported steps and says what PyTorch does not record") {
  HangNews news = stall(HangNews::Kind::hung);
  news.ranks[0].page.progress_done = 1200;
  news.ranks[0].page.progress_total = 10000;
  CHECK_THAT(hang_report(news, 0)[2], Catch::Contains("step 1200 of 10000; "));
  CHECK_THAT(hang_report(news, 0)[2], !Catch::Contains("steps done"));
  news.verdict.kind = VerdictKind::transport;
  news.verdict.call = "broadcast i64[1]";
  const auto says = [&](std::string_view what) {
    const auto lines = hang_report(news, 0);
    return std::ranges::any_of(lines, [&](const auto& line) { return line.find(what) != line.npos; });
  };
  CHECK_FALSE(says("the same src or dst"));
  CHECK_FALSE(says("may still run earlier work"));
  for (RankView& rank : news.ranks) rank.page.groups[0].is_sampled = true;
  CHECK(says("the same src or dst"));
  news.verdict.call = "all_reduce f32[1024]";
  CHECK(says("one of them may still run earlier work"));
  CHECK(says("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("a hang report of many ranks takes at most 25 lines") {
  HangNews news = stall(HangNews::Kind::hung);
  for (int rank = 2; rank < 100; ++rank) news.ranks.push_back(rank_at(rank, 7, 6));
  const auto lines = hang_report(news, 0);
  CHECK(lines.size() <= 25);
  CHECK(lines[lines.size() - 2] == "  … and 82 more ranks");
}

TEST_CASE("differing calls are shown side by side") {
  HangNews news = stall(HangNews::Kind::hung);
  news.verdict.kind = VerdictKind::different_arguments;
  news.verdict.sides = {{0, {7, 1, 1, "all_reduce sum f32[8]", "head", "train.cpp:88"}},
                        {1, {7, 2, 1, "all_reduce sum f32[9]", "head", ""}}};
  news.verdict.around = {{0, {6, 1, 1, "barrier", "", ""}}, {0, {8, 1, 1, "barrier", "", ""}}};
  const auto lines = hang_report(news, 0);
  CHECK(lines[0].find("rank 1 called all_reduce sum f32[9] ('head') as #7 of world, and the other ranks called "
                      "all_reduce sum f32[8] ('head') at train.cpp:88  [DDP-H05") == 0);
  CHECK(lines[1] == "  the calls before and after it:");
  CHECK(lines[2] == "    #6  both    barrier");
  CHECK(lines[3] == "    #8  rank 0  barrier");
  news.verdict.around[1].call.what.clear();
  CHECK(hang_report(news, 0)[3] == "    #8  rank 0  a call that its node has not described");
}

TEST_CASE("all ranks are named if the culprit is unknown") {
  Verdict verdict = stall(HangNews::Kind::hung).verdict;
  verdict.kind = VerdictKind::different_call;
  verdict.culprits = {0, 1};
  verdict.sides = {{0, {7, 1, 1, "barrier", "", ""}}, {1, {7, 2, 1, "broadcast f32[8]", "", ""}}};
  CHECK(hang_headline(verdict) ==
        "rank 0 called barrier, and rank 1 called broadcast f32[8], as #7 of world  [DDP-H04 different collective]");
}

TEST_CASE("exited ranks are reported with the collective that they left unfinished") {
  Verdict verdict;
  verdict.kind = VerdictKind::ended;
  verdict.culprits = {2};
  verdict.waiting = {0, 1};
  CHECK(hang_headline(verdict) == "rank 2 has exited, and ranks 0, 1 wait for it  [DDP-H01 ended]");
  verdict.waiting.clear();
  verdict.group = "world";
  verdict.sequence = 4;
  CHECK(hang_headline(verdict) == "rank 2 has exited without finishing collective (#4 of world)  [DDP-H01 ended]");
}

TEST_CASE("every verdict has a headline with its code") {
  Verdict verdict = stall(HangNews::Kind::hung).verdict;
  for (int kind = 0; kind <= static_cast<int>(VerdictKind::silent); ++kind) {
    verdict.kind = static_cast<VerdictKind>(kind);
    const std::string line = hang_headline(verdict);
    CHECK(line.find("[DDP-H0" + std::to_string(kind + 1) + " " + std::string(title_of(verdict.kind)) + "]") !=
          std::string::npos);
    CHECK(line.size() > 40);
  }
}

TEST_CASE("stopped and continuing ranks take one line each") {
  HangNews news = stall(HangNews::Kind::stopped);
  CHECK(hang_report(news, 0) ==
        std::vector<std::string>{"rank 1 is stopped (SIGSTOP or a debugger); --hang-timeout is paused meanwhile "
                                 " [DDP-H02 stopped]"});
  news.verdict.culprits = {1, 2};
  news.kind = HangNews::Kind::resumed;
  CHECK(hang_report(news, 0) == std::vector<std::string>{"ranks 1, 2 continue"});
  news.kind = HangNews::Kind::goes_on;
  CHECK(hang_report(news, 0) ==
        std::vector<std::string>{"the job continues: all_reduce sum f32[8] ('bucket 0') (#7 of world) is complete"});
}

TEST_CASE("a rank with little information is still described") {
  HangNews news = stall(HangNews::Kind::hung);
  news.ranks[0].process.reset();
  news.ranks[1].page = {};
  news.ranks[1].calls.clear();
  const auto lines = hang_report(news, 0);
  CHECK(lines[1] == "  rank 1 (pid 4001): does not show its collectives; sleeping in futex_wait, CPU 0 %");
  CHECK(lines[2].find("its process cannot be inspected") != std::string::npos);
  news.ranks[1].has_ended = true;
  CHECK(hang_report(news, 0)[1] == "  rank 1 (pid 4001): has exited; does not show its collectives");
  news.ranks[1].page.is_written = true;
  CHECK(hang_report(news, 0)[1] == "  rank 1 (pid 4001): has exited; has called no collective yet");
  news.ranks[1].page.phase = RankPhase::done;
  CHECK(hang_report(news, 0)[1] == "  rank 1 (pid 4001): has exited; has left its process groups");
}

TEST_CASE("the announced reaction to a stall depends on who set the limit") {
  const auto outlook = [](const StallJudgement& judgement, bool ends_job, VerdictKind kind = VerdictKind::not_called) {
    HangNews news = stall(HangNews::Kind::warned);
    news.verdict.kind = kind;
    news.judgement = judgement;
    news.ends_job = ends_job;
    return hang_report(news, 0).back();
  };
  CHECK(outlook({HangClass::users_limit, 5s, true, 18s, 30s, "--hang-timeout"}, false) ==
        "  the hang is reported again in 18.0 s; the limit is 30.0 s (--hang-timeout)");
  CHECK(outlook({HangClass::unknown, 5s, true, 20min, 30min, "no sign of life"}, true) ==
        "  the job continues, because no --hang-timeout was given. Without a sign of life, it will be terminated in 20 "
        "min");
  CHECK(outlook({HangClass::unknown, 5s, true, 20min, 30min, "no data has moved"}, true, VerdictKind::transport) ==
        "  the job continues, because no --hang-timeout was given. If no data moves, it will be terminated in 20 min");
  CHECK(outlook({HangClass::unknown, 5s, true, std::nullopt, 0s, ""}, false) ==
        "  the job continues, because no --hang-timeout was given");
}

TEST_CASE("a rank's line shows its last sign of life") {
  HangNews news = stall(HangNews::Kind::stalled);
  const auto ends_with = [&](const RankActivity& activity, const std::string& end) {
    news.ranks[1].activity = activity;
    return hang_report(news, 0)[1].ends_with(end);
  };
  CHECK(ends_with({0s, 0s, true, Sign::io, 0.001}, ", CPU 0 %; it reads or writes"));
  CHECK(ends_with({0s, 0s, true, Sign::processor, 1}, ", CPU 100 %"));
  CHECK(ends_with({65s, 0s, true, Sign::none, 0}, ", CPU 0 %, no sign of life for 1 min 5 s"));
}

TEST_CASE("stacks are shown together with the ranks without a stack and the reason") {
  HangNews news = stall(HangNews::Kind::hung);
  news.evidence.stacks = {{0, StackSource::signal_handler, {{1, "train", {"wait (libddp.so)", "main (train)"}}}, {}},
                          {1, StackSource::signal_handler, {{2, "train", {"load (data.py:8)", "main (train)"}}}, {}},
                          {2, {}, {}, {"gdb: not found in PATH"}}};
  const auto lines = hang_report(news, 0);
  const auto has = [&](const std::string& text) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(has("rank 1: load"));
  CHECK(has("rank 0: wait"));
  CHECK(has("no stack of rank 2: gdb: not found in PATH"));
}

TEST_CASE("the report shows a culprit's child processes except idle ones") {
  HangNews news = stall(HangNews::Kind::stalled);
  const auto process = [](int pid, std::vector<std::string> frames) {
    return ThreadStack{pid, "process " + std::to_string(pid), std::move(frames)};
  };
  const std::vector<std::string> reads = {"__getitem__ (data.py:41)", "_worker_loop (_utils/worker.py:374)"};
  const std::vector<std::string> waits = {"Queue.get (multiprocessing/queues.py:113)",
                                          "_worker_loop (_utils/worker.py:334)"};
  const std::vector<ThreadStack> threads = {
      {1, "MainThread", {"__next__ (train.py:7)"}}, process(5, reads), process(6, reads), process(7, waits)};
  news.evidence.stacks = {{0, StackSource::py_spy, threads, {}}, {1, StackSource::py_spy, threads, {}}};
  std::vector<std::string> process_lines = hang_report(news, 0);
  std::erase_if(process_lines, [](const std::string& line) { return line.find("process") == std::string::npos; });
  REQUIRE(process_lines.size() == 1);
  CHECK(process_lines[0].starts_with("  rank 1, its process 5: __getitem__ (data.py:41)"));
}

TEST_CASE("evidence from other sources takes a few lines") {
  HangNews news = stall(HangNews::Kind::warned);
  const auto lines_of = [&] {
    std::vector<std::string> lines = hang_report(news, 0);
    std::erase_if(lines, [](const std::string& line) { return line.find("NCCL RAS") == std::string::npos; });
    return lines;
  };
  news.evidence.sources = {{"NCCL RAS", "…", {"one", "two"}, {"it was cut"}}};
  CHECK(lines_of() == std::vector<std::string>{"  NCCL RAS: one", "  NCCL RAS: two", "  NCCL RAS: it was cut"});
  news.evidence.sources[0].essence = {"one", "two", "three", "four"};
  CHECK(lines_of() == std::vector<std::string>{"  NCCL RAS: one", "  NCCL RAS: two", "  NCCL RAS: three",
                                               "  NCCL RAS: … (the rest is in the dump)"});
  news.evidence.sources[0] = {"NCCL RAS", "all is well", {}, {}};
  CHECK(lines_of() ==
        std::vector<std::string>{"  NCCL RAS: no errors, no warnings (the dump contains its full answer)"});
}

TEST_CASE("a rank's GPU progress is shown if it is known") {
  HangNews news = stall(HangNews::Kind::hung);
  news.verdict.kind = VerdictKind::gpu_behind;
  const auto has = [&](const std::string& text) {
    for (const std::string& line : hang_report(news, 0)) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  };
  CHECK(has("the GPU of rank 1 has not started all_reduce"));
  CHECK_FALSE(has("ddplaunch doctor --deep on a node"));
  for (RankView& rank : news.ranks) rank.page.groups[0].gpu_queued = 7;
  CHECK(has("its GPU has not started #7"));
  news.ranks[0].page.groups[0].gpu_started = 7;
  CHECK(
      has("rank 0 (pid 4000): training; waits in all_reduce sum f32[8] ('bucket 0') #7 at train.cpp:88; its GPU is "
          "executing #7; sleeping"));
  news.ranks[0].page.groups[0].gpu_finished = 7;
  CHECK(has("its GPU has finished #7"));
  news.ranks[0].page.steps = 3;
  CHECK(has("rank 0 (pid 4000): training, 3 steps done; waits"));
}

TEST_CASE("the report suggests settings if all ranks have called the collective") {
  HangNews news = stall(HangNews::Kind::stalled);
  const auto has = [&](const std::string& text) {
    for (const std::string& line : hang_report(news, 0)) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  };
  CHECK_FALSE(has("  try"));
  news.verdict.kind = VerdictKind::transport;
  CHECK(has("  try GLOO_SOCKET_IFNAME"));
  news.ranks[0].page.groups[0].gpu_queued = 7;
  CHECK(has("  ddplaunch doctor --deep on a node proves whether"));
  CHECK(has("all ranks are in "));
  news.verdict.finished = {0, 2};
  CHECK(has(", which is done on ranks 0, 2 only  [DDP-H07 transport]"));
  // A profiler plug-in of NCCL shows what the GPU has begun if it follows kernels.
  GroupView& group = news.ranks[0].page.groups[0];
  group.is_sampled = true;
  group.launches = LaunchView{};
  CHECK_FALSE(has("ddplaunch doctor --deep on a node"));
  group.launches->kernels_from = 1;
  CHECK(has("ddplaunch doctor --deep on a node"));
  CHECK_FALSE(has("PyTorch"));
}

TEST_CASE("a requested report shows what all ranks do") {
  HangNews news = stall(HangNews::Kind::asked);
  CHECK(hang_report(news, 0).front() == hang_headline(news.verdict) + ", for 12.0 s");
  news.verdict = {};
  const auto lines = hang_report(news, 0);
  CHECK(lines.front() == "state of the ranks:");
  CHECK(lines.size() == 1 + news.ranks.size());
}

TEST_CASE("the report uses the plural for several ranks") {
  HangNews news = stall(HangNews::Kind::hung);
  news.evidence.stacks = {{0, {}, {}, {"it has exited"}}, {1, {}, {}, {"it has exited"}}};
  const auto has = [&](const std::string& text) {
    const auto lines = hang_report(news, 0);
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(has("no stack of ranks 0, 1: they have exited"));
  news.verdict.kind = VerdictKind::silent;
  for (RankView& rank : news.ranks) rank.page.is_written = rank.has_ended = false;
  CHECK(has(" report neither collectives nor heartbeats; "));
  news.ranks.resize(1);
  CHECK(has(" reports neither collectives nor heartbeats; "));
}

TEST_CASE("the report recommends py-spy if Python frames have no lines") {
  Evidence evidence;
  evidence.stacks = {{.rank = 0, .source = StackSource::copied_stack, .threads = {}, .missing = {"gdb: not found in PATH"}}};
  CHECK_FALSE(lacks_py_spy(evidence));
  evidence.stacks.push_back(
      {.rank = 1, .source = StackSource::copied_stack, .threads = {}, .missing = {"py-spy: not found in PATH"}});
  CHECK(lacks_py_spy(evidence));
}

TEST_CASE("a straggler table has a line for each rank") {
  StragglerReport report;
  CHECK(straggler_table_lines(report).empty());
  report = {380, 100s, {{2, 12, 24ms, 5100ms, 5s}, {0, 0, 0ms, 0ms, 0ms}}};
  CHECK(straggler_table_lines(report) ==
        std::vector<std::string>{"  ranks that the others waited for, in 1 min 40 s:",
                                 "    rank 2: others waited 5.1 s for it (5 % of the time, 5.0 s at once); it was last "
                                 "in 12 of 380 collectives seen, "
                                 "2 ms after the median",
                                 "    rank 0: others waited 0 ms for it (0 % of the time, 0 ms at once); it was last "
                                 "in 0 of 380 collectives seen"});
  for (int rank = 3; rank < 100; ++rank) report.ranks.push_back({rank, 0, 0ms, 0ms, 0ms});
  CHECK(straggler_table_lines(report).size() == 11);
}

TEST_CASE("a rank for which the others waited much gets a remark") {
  StragglerReport report = {380, 100s, {{2, 12, 24ms, 5100ms, 5s}, {0, 1, 1ms, 400ms, 50ms}}};
  CHECK(straggler_remark(report).find("rank 2 was slow: others waited 5.1 s for it (5 % of the time, 5.0 s at once)") ==
        0);
  report.ranks[0].last = 0;
  CHECK(straggler_remark(report) == "rank 2 was slow: others waited 5.1 s for it (5 % of the time, 5.0 s at once)");
  report.ranks[1].waited_for = 4s;  // the other rank was waited for, too
  CHECK(straggler_remark(report).empty());
  report.ranks[1].waited_for = 0s;
  report.time = 59s;  // the run is too short
  CHECK(straggler_remark(report).empty());
  report.time = 1h;  // the share of the time is small
  CHECK(straggler_remark(report).empty());
  report = {380, 2s, {{2, 12, 24ms, 900ms, 1ms}, {0, 1, 1ms, 0ms, 0ms}}};  // the time is too short for a remark
  CHECK(straggler_remark(report).empty());
  CHECK(straggler_remark({}).empty());
}

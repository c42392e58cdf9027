#include "launcher/see/report/report_data.h"

#include "launcher/see/report/history_json.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

namespace {

constexpr WallTime kStart = WallTime(1'763'714'602'000ms);

LaunchPlan plan_of(const std::string& run_id) {
  LaunchPlan plan;
  plan.host_name = "node0";
  plan.run_id = run_id;
  plan.program = "/usr/bin/python3";
  plan.arguments = {"python3", "train.py"};
  plan.command_line = {"ddplaunch", "train.py"};
  plan.workers = 2;
  return plan;
}

Placement placement_of(int attempt) {
  Placement placement;
  placement.attempt = attempt;
  placement.world_size = 2;
  return placement;
}

AttemptHistory history_of(int attempt) {
  AttemptHistory history;
  history.attempt = attempt;
  history.seconds = 4;
  history.columns = 2;
  history.column_seconds = 2;
  for (const int rank : {0, 1}) {
    history.ranks.push_back({.rank = rank, .node = rank == 0 ? "node0" : "node1", .strip = "c w"});
  }
  CollectiveHistory row;
  row.operation = "all_reduce";
  row.count = 3;
  row.last_rank = 1;
  history.collectives.push_back(row);
  return history;
}

// Returns the lines of a run whose rank 1 fails.
Lines failed_run(const std::string& run_id) {
  const LaunchPlan plan = plan_of(run_id);
  const Placement placement = placement_of(0);
  JobOutcome outcome;
  WorkerEnd end;
  end.rank = end.local_rank = 1;
  end.status = ddp::base::ExitStatus::exited(3);
  outcome.cause = WorkerFailed{end, {}};
  outcome.status = ddp::base::ExitStatus::exited(3);
  HangNews news;
  news.kind = HangNews::Kind::hung;
  news.verdict.culprits = {1};
  news.evidence.stacks.push_back({0, StackSource::signal_handler, {{5, "main", {"wait (a.cpp:3)", "main (a.cpp:9)"}}}, {}});
  return {job_started_line(plan, {"/logs", "/work", "Linux"}, kStart),
          attempt_started_line(plan, placement, kStart + 1s),
          event_line(plan, placement, WorkerStarted{0, 70}, kStart + 1s),
          event_line(plan, placement, WorkerStarted{1, 71}, kStart + 1s),
          message_line(plan, "node0", {LogLevel::warning, LogSource::nodes, "node1 differs"}, kStart + 2s),
          event_line(plan, placement, news, kStart + 3s, {"rank 1 hangs"}),
          event_line(plan, placement, WorkerEnd{1, ddp::base::ExitStatus::exited(3), {}, 7}, kStart + 4s),
          history_line(plan, "node0", history_of(0), kStart + 5s),
          attempt_ended_line(plan, placement, {outcome, "no restart", {.last_lines = {"last"}}, {"rank 1 failed"}},
                             kStart + 5s),
          job_ended_line(plan, {3, 1, 5s, "", "", {"rank 1 failed"}}, kStart + 5s)};
}

}  // namespace

TEST_CASE("the events of a run are converted to a record") {
  const auto run = read_run(failed_run("r1"));
  REQUIRE(run);
  CHECK(run->run_id == "r1");
  CHECK(run->started == "2025-11-21T08:43:22.000Z");
  CHECK(run->command_line == Lines{"ddplaunch", "train.py"});
  CHECK(run->directory == "/work");
  CHECK(run->exit_code == 3);
  CHECK(run->seconds == 5);
  CHECK(run->missing.empty());
  REQUIRE(run->messages.size() == 1);
  CHECK(run->messages[0].time == 2);
  REQUIRE(run->attempts.size() == 1);
  const AttemptRecord& attempt = run->attempts[0];
  CHECK(attempt.begin == 1);
  CHECK(attempt.end == 5);
  CHECK(attempt.cause == "worker_failed");
  CHECK(attempt.culprits == std::vector<int>{1});
  CHECK(attempt.text == Lines{"rank 1 failed"});
  CHECK(attempt.last_lines == Lines{"last"});
  CHECK(attempt.next == "no restart");
  REQUIRE(attempt.workers.size() == 2);
  CHECK(attempt.workers[0].pid == 70);
  CHECK(attempt.workers[1].end == "exit code 3");
  REQUIRE(attempt.stalls.size() == 1);
  CHECK(attempt.stalls[0].text == Lines{"rank 1 hangs"});
  REQUIRE(attempt.stalls[0].stacks.size() == 1);
  CHECK(attempt.stalls[0].stacks[0].frames.size() == 2);
  REQUIRE(attempt.history);
  CHECK(attempt.history->ranks.size() == 2);
  CHECK(attempt.history->ranks[1].strip == "c w");
  CHECK(attempt.history->collectives.at(0).last_rank == 1);
  REQUIRE(attempt.nodes.size() == 2);  // node1 is known from the history only
  CHECK(attempt.nodes[1].name == "node1");
}

TEST_CASE("the launcher's own report takes the histories of attempts as values") {
  const auto run = read_run(failed_run("r1"), "", {{0, {.attempt = 0, .ranks = {{.rank = 5}}}}});
  REQUIRE(run);
  CHECK(run->attempts.at(0).history->ranks.at(0).rank == 5);
}

TEST_CASE("a truncated event log gives a record that says what is missing") {
  const Lines whole = failed_run("r1");
  for (std::size_t count = 1; count < whole.size(); ++count) {
    CAPTURE(count);
    Lines lines(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count));
    lines.push_back(whole[count].substr(0, whole[count].size() / 2));
    const auto run = read_run(lines);
    REQUIRE(run);
    CHECK_FALSE(run->exit_code);
    CHECK(run->missing.size() >= 2);  // the end, and a line that is no event
  }
  const auto end_only = read_run(Lines{whole.back()});
  REQUIRE(end_only);
  CHECK(end_only->missing.front().starts_with("The event log does not contain the start"));
}

TEST_CASE("the last of several runs is reported unless another one is selected") {
  Lines lines = failed_run("r1");
  for (const std::string& line : failed_run("r2")) lines.push_back(line);
  CHECK(read_run(lines)->run_id == "r2");
  CHECK(read_run(lines)->attempts.at(0).stalls.size() == 1);
  CHECK(read_run(lines, "r1")->run_id == "r1");
  CHECK_FALSE(read_run(lines, "r3"));
  for (const std::string& line : failed_run("r1")) lines.push_back(line);
  CHECK(read_run(lines, "r1")->attempts.at(0).stalls.size() == 1);  // the id was used again
}

TEST_CASE("invalid lines and fields of an event log are ignored, and the report counts lines that are no event") {
  CHECK_FALSE(read_run({}));
  CHECK_FALSE(read_run(Lines{"", "garbage", "[1]", "5", "{}", "{\"event\":7}"}));
  Lines lines = failed_run("r1");
  for (const char* line :
       {"garbage",
        R"({"event":"history","run_id":"r1","attempt":"x","ranks":{"a":1},"columns":1e300,"collectives":[5,null]})",
        R"({"event":"history","run_id":"r1","attempt":-7,"ranks":[1,{"rank":1e99,"seconds":["a",-1]}]})",
        R"({"event":"attempt_ended","run_id":"r1","attempt":1e30,"cause":[]})",
        R"({"event":"hang","run_id":"r1","stall":{"stacks":[{"threads":[{"frames":[1,"f"]}]}],"culprits":["x"]}})",
        R"({"event":"worker_ended","run_id":"r1","exit_code":"x","peak_rss_bytes":-5})"}) {
    lines.insert(lines.end() - 1, line);
  }
  const auto run = read_run(lines);
  REQUIRE(run);
  CHECK(run->exit_code == 3);
  CHECK(run->missing.back() == "1 line of the event log is no event.");
}

TEST_CASE("times of the event log are parsed") {
  CHECK(seconds_of_time("2025-11-21T08:43:22.123Z") == 1'763'714'602.123);
  CHECK(seconds_of_time("1970-01-01T00:00:01Z") == 1);
  CHECK_FALSE(seconds_of_time("yesterday"));
}

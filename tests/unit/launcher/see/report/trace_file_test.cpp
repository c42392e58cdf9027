#include "launcher/see/report/trace_file.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>
#include <iterator>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/made_picture.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using Json = nlohmann::json;

namespace {

struct Rig {
  explicit Rig(const std::string& path = "") {
    plan.trace_file = path.empty() ? directory.path() + "/trace.json" : path;
    plan.run_id = "r1";
    plan.what = "train";
  }

  void open(std::uint64_t most_bytes = limits::kTraceBytes) {
    const auto warn = [this](const std::string& text) { warnings.push_back(text); };
    trace.emplace(plan, "2026-11-26T07:00:00Z", warn, most_bytes);
  }
  Json written() const {
    std::ifstream file(plan.trace_file);
    return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::vector<std::string> marks() const {
    std::vector<std::string> texts;
    const Json document = written();
    for (const Json& event : document.at("traceEvents")) {
      if (event.at("ph") == "i") {
        texts.push_back(event.at("cat").get<std::string>() + ": " + event.at("name").get<std::string>());
      }
    }
    return texts;
  }

  TemporaryDirectory directory;
  LaunchPlan plan;
  std::optional<TraceFile> trace;
  std::vector<std::string> warnings;
};

std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

RankRecords a_step(int rank, std::uint32_t number) {
  RankRecords records;
  records.rank = rank;
  records.groups.emplace_back();
  records.names.emplace_back();
  records.records.push_back({wire::RecordKind::step, 0, 0, 0, number, now(), now() + 10, 0});
  return records;
}

constexpr std::uint64_t kFlush = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kTraceFlush).count());

}  // namespace

TEST_CASE("a trace is a complete document from the start") {
  Rig rig;
  CHECK_FALSE(TraceFile::check(rig.plan));
  rig.open();
  CHECK(rig.trace->wants_records());
  CHECK(rig.written().at("otherData").at("run_id") == "r1");
  rig.trace->add_records(a_step(0, 1));
  rig.trace->add(unchanged_picture(std::chrono::nanoseconds(1), now() + kFlush));
  CHECK(rig.written().dump().find("step 1") != std::string::npos);
  rig.trace->close();
  CHECK_FALSE(rig.trace->wants_records());
  rig.trace->add_records(a_step(0, 2));
  rig.trace->close();
  CHECK(rig.written().dump().find("step 2") == std::string::npos);
  CHECK(rig.warnings.empty());
}

TEST_CASE("attempts, failures and verdicts are marked in the trace") {
  Rig rig;
  rig.open();
  Placement place;
  place.first_rank = 4;
  place.world_size = 8;
  rig.trace->attempt_begins(place);
  rig.trace->event(WorkerStarted{0, 123});
  rig.trace->event(WorkerEnd{0, base::ExitStatus::exited(0), {}});
  rig.trace->event(WorkerEnd{1, base::ExitStatus::killed(SIGSEGV), {}});
  rig.trace->event(SignalArrived{SIGINT});
  rig.trace->event(AlarmRang{});
  HangNews news;
  news.kind = HangNews::Kind::hung;
  news.verdict.culprits = {5};
  rig.trace->event(news);
  JobOutcome outcome;
  outcome.status = base::ExitStatus::exited(0);
  rig.trace->attempt_ended(outcome, "restart 1 of 3 in 250 ms");
  Placement next;
  next.attempt = 1;
  next.restore.step = 7;
  next.restore.ranks.resize(8);
  rig.trace->attempt_begins(next);
  rig.trace->close();
  const auto marks = rig.marks();
  REQUIRE(marks.size() == 8);
  CHECK(marks[0] == "attempt: attempt 0 begins with 8 ranks");
  CHECK(marks[1].starts_with("failure: rank 5: killed by SIGSEGV"));
  CHECK(marks[2].starts_with("job: ddplaunch received SIGINT"));
  CHECK(marks[3].starts_with("verdict: "));
  CHECK(marks[4] == "attempt: attempt 0 has succeeded");
  CHECK(marks[5] == "restart: restart 1 of 3 in 250 ms");
  CHECK(marks[7].starts_with("restart: the ranks go on after step 7"));
}

TEST_CASE("a trace that cannot be written gives one warning") {
  Rig rig("/nowhere/trace.json");
  REQUIRE(TraceFile::check(rig.plan));
  CHECK(TraceFile::check(rig.plan)->message.find("--trace=/nowhere/trace.json") != std::string::npos);
  rig.open();
  rig.trace->attempt_begins({});
  rig.trace->add_records(a_step(0, 1));
  rig.trace->close();
  CHECK(rig.warnings == std::vector<std::string>{"cannot write --trace=/nowhere/trace.json: No such file or directory. "
                                                 "The job continues without it."});
}

TEST_CASE("a full disk gives one warning about the trace") {
  Rig rig("/dev/full");
  rig.open();
  rig.trace->add_records(a_step(0, 1));
  rig.trace->add(unchanged_picture(std::chrono::nanoseconds(1), now() + kFlush));
  rig.trace->add(unchanged_picture(std::chrono::nanoseconds(1), now() + 2 * kFlush));
  rig.trace->close();
  REQUIRE(rig.warnings.size() == 1);
  CHECK(rig.warnings[0] == "cannot write --trace=/dev/full: No space left on device. The job continues without it.");
}

TEST_CASE("a trace that reaches its largest size ends, is complete, and gives one warning") {
  Rig rig;
  rig.open(20 * 1024);
  std::uint32_t steps = 0;
  for (std::uint64_t writes = 1; rig.trace->wants_records() && writes < 1000; ++writes) {
    rig.trace->add_records(a_step(0, ++steps));
    rig.trace->add(unchanged_picture(std::chrono::nanoseconds(1), now() + writes * kFlush));
  }
  CHECK(steps > 10);
  CHECK(steps < 1000);
  rig.trace->add_records(a_step(0, steps + 1));
  rig.trace->attempt_ended({}, "");
  rig.trace->close();
  CHECK(rig.marks().back() == "trace: the trace ends here, because it has reached its largest size");
  CHECK(rig.written().dump().find("step " + std::to_string(steps) + "\"") != std::string::npos);
  CHECK(rig.warnings == std::vector<std::string>{"--trace=" + rig.plan.trace_file +
                                                 " has reached 20 KiB and ends here. Use --record=steps for fewer "
                                                 "records."});
}

// Tests what nodes show of their own ranks and know of the others' ranks.
#include "support/catch.h"
#include "support/coordinator_job.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;
using Job = CoordinatorJob;

TEST_CASE("the data of a node are forwarded with its clock offset while the node takes part") {
  Job job;
  wire::NodeHello other = node("b");
  other.monotonic = std::chrono::nanoseconds(1h + 5s).count();
  job.comes(7, other).says(7, wire::NodeShows{0, wire::Subject::ranks, "[]"});
  job.says(7, wire::NodeShows{1, wire::Subject::ranks, "of another attempt"}).says(7, wire::NodeEnded{0});
  job.says(7, wire::NodeShows{0, wire::Subject::ranks, "late"});
  std::vector<Shown> passed;
  for (const CoordinatorAction& action : job.actions) {
    if (const auto* on = std::get_if<Shown>(&action)) passed.push_back(*on);
  }
  REQUIRE(passed.size() == 1);
  CHECK(passed[0].host == "b");
  CHECK(passed[0].clock_ahead == 5s);
  CHECK(passed[0].text == "[]");
}

TEST_CASE("only nodes that take part are asked for data") {
  CoordinatorOptions options;
  Job job(options);
  job.asks(wire::Subject::ranks).comes(7, node("b")).comes(8, node("c")).asks(wire::Subject::evidence);
  CHECK(job.to<wire::CoordinatorAsks>(7) == std::vector{wire::CoordinatorAsks{0, wire::Subject::evidence}});
  CHECK(job.to<wire::CoordinatorAsks>(8).empty());
  CHECK(job.to<wire::CoordinatorAsks>(kOwnNode).empty());
}

TEST_CASE("a collective mismatch outranks secondary failures as the cause, and a certain cause outranks both") {
  wire::Cause disputed = failure("rank 2: exit code 1");
  disputed.knowledge = wire::Knowledge::disputed;
  Job job;
  job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure("rank 3: lost a peer", true)});
  job.passes(100ms)
      .says(kOwnNode, wire::NodeFailed{0, disputed})
      .says(7, wire::NodeFailed{0, failure("secondary failure", true)});
  CHECK(job.to<wire::CoordinatorEnds>(7).empty());
  job.passes(100ms).says(kOwnNode, wire::NodeFailed{0, failure("rank 1 called something else")});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.text == "rank 1 called something else");
  Job alone;
  alone.comes(7, node("b")).says(7, wire::NodeFailed{0, failure("secondary failure", true)});
  alone.says(kOwnNode, wire::NodeFailed{0, disputed}).passes(3s);
  REQUIRE(alone.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(alone.to<wire::CoordinatorEnds>(7)[0].cause.text == "rank 2: exit code 1");
}

TEST_CASE("a rank that exited with 0 and is named by secondary failures is the cause") {
  wire::Cause secondary = failure("rank 0: exit code 1", true);
  secondary.lost_peer = 3;
  for (const bool all_have_ended : {false, true}) {
    Job job;
    job.comes(7, node("b")).says(7, wire::NodeLeft{0, 3}).says(kOwnNode, wire::NodeFailed{0, secondary});
    if (all_have_ended) job.says(7, wire::NodeEnded{0}).says(kOwnNode, wire::NodeEnded{0});
    job.passes(3s);
    REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
    const wire::Cause cause = job.to<wire::CoordinatorEnds>(7)[0].cause;
    CHECK(cause.text == "rank 3: exit code 0 before its collectives were done (reported by a: rank 0: exit code 1)");
    CHECK(cause.node == "b");
    CHECK(cause.exit_code == 124);
  }
}

TEST_CASE("ranks that stay after the others have exited are given the exit timeout") {
  CoordinatorOptions options;
  options.exit_timeout = 5s;
  Job job(options);
  job.comes(7, node("b")).says(kOwnNode, wire::NodeLeft{0, 0}).passes(4s, {7});
  job.says(kOwnNode, wire::NodeLeft{0, 1}).says(7, wire::NodeLeft{0, 3}).says(kOwnNode, wire::NodeEnded{0});
  job.passes(4s, {7});
  CHECK(job.to<wire::CoordinatorEnds>(7).empty());
  job.passes(2s, {7});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.text ==
        "ranks did not exit within 5.0 s after the last rank that exited (--exit-timeout): rank 2 on b");
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.exit_code == 124);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.exit_timed_out);
}

TEST_CASE("a wrong clock is reported once") {
  wire::NodeHello own = node("a");
  own.monotonic = std::chrono::nanoseconds(1h).count();
  own.time_of_day = std::chrono::nanoseconds(1000h).count();
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 3;
  options.nodes.join_timeout = 60s;
  options.nodes.node_timeout = 10s;
  Coordinator coordinator(options, own, Coordinator::TimePoint{1h});
  const auto messages = [&](NodeId id, std::chrono::nanoseconds time_of_day) {
    wire::NodeHello other = node("b");
    other.time_of_day = time_of_day.count();
    std::string lines;
    for (const CoordinatorAction& action : coordinator.heard(id, "", other, Coordinator::TimePoint{1h + 10s})) {
      if (const auto* tell = std::get_if<LogLine>(&action)) lines += tell->text;
    }
    return lines;
  };
  CHECK(messages(7, 1000h + 11s) == "");
  CHECK(messages(8, 1000h - 20s) == "the clock of b is 30.0 s behind that of a; the times in their logs do not match");
}

TEST_CASE("a rank named by a secondary failure gets more time to report, unless it is known to have left") {
  wire::Cause secondary = failure("rank 0: exit code 1", true);
  secondary.lost_peer = 3;
  Job job;
  job.comes(7, node("b")).says(kOwnNode, wire::NodeFailed{0, secondary}).passes(8s, {7});
  CHECK(job.to<wire::CoordinatorEnds>(7).empty());
  job.says(7, wire::NodeFailed{0, failure("rank 3: exit code 9")});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.text == "rank 3: exit code 9");
  Job left;
  left.comes(7, node("b")).says(kOwnNode, wire::NodeFailed{0, secondary}).passes(1s, {7});
  left.says(7, wire::NodeLeft{0, 3}).passes(3s, {7});
  REQUIRE(left.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(left.to<wire::CoordinatorEnds>(7)[0].cause.node == "b");
}

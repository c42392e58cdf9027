// Tests which nodes may leave a job because they were asked to, and how it goes on without them.
#include <chrono>

#include "launcher/run/job/coordinator.h"
#include "support/catch.h"
#include "support/coordinator_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
namespace wire = ddp::wire;
using Job = CoordinatorJob;

namespace {

// Returns a running job of nodes a, b (7) and c (8), which may run with `min` nodes.
Job elastic_job(int min, int max_restarts = 3) {
  CoordinatorOptions options;
  options.nodes.min = min;
  options.nodes.max = 3;
  options.nodes.last_call = 1s;
  options.max_restarts = max_restarts;
  Job job(options);
  job.comes(7, node("b")).comes(8, node("c"));
  return job;
}

wire::Cause asked(int signal = 15, bool ends_job = false) {
  return {.text = "terminated", .exit_code = 128 + signal, .signal = signal, .may_restart = !ends_job};
}

wire::NodeEnded ended(bool was_asked_to_save = false, int attempt = 0) {
  return {attempt, wire::Progress::some, was_asked_to_save};
}

std::vector<int> dones(const Job& job, NodeId node) {
  std::vector<int> codes;
  for (const auto& done : job.to<wire::CoordinatorIsDone>(node)) {
    codes.push_back(done.cause.exit_code);
    CHECK((done.cause.signal != 0) == (done.cause.exit_code > 128 && node != kOwnNode));
  }
  return codes;
}

using Codes = std::vector<int>;

}  // namespace

TEST_CASE("a node that is asked to end leaves, and the job continues with the other nodes") {
  for (const int signal : {1, 2, 15}) {
    Job job = elastic_job(1);
    job.says(8, wire::NodeFailed{0, asked(signal)});
    REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
    CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.text == "left: terminated");
    CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.signal == 0);
    // The launcher repeats the request when its workers have ended.
    job.says(8, wire::NodeFailed{0, asked(signal)}).says(8, ended()).says(7, ended()).says(kOwnNode, ended());
    CHECK(dones(job, 8) == Codes{128 + signal});
    CHECK(dones(job, 7).empty());
    job.passes(3s, {7});
    REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 2);
    CHECK(job.to<wire::CoordinatorBegins>(7)[1].node_count == 2);
    CHECK(job.to<wire::CoordinatorBegins>(8).size() == 1);
  }
}

TEST_CASE("a signal to a node ends the job if it cannot continue without that node") {
  struct Case {
    const char* what;
    int min;
    int max_restarts;
    NodeId node;
    bool ends_job;
  };
  const std::vector<Case> cases = {{"the first node cannot be replaced", 1, 3, kOwnNode, false},
                                   {"too few nodes remain", 3, 3, 8, false},
                                   {"the job is never restarted", 1, 0, 8, false},
                                   {"it is a second request", 1, 3, 8, true}};
  for (const Case& one : cases) {
    CAPTURE(one.what);
    Job job = elastic_job(one.min, one.max_restarts);
    job.says(one.node, wire::NodeFailed{0, asked(15, one.ends_job)});
    for (const NodeId node : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(node, ended());
    for (const NodeId node : {kOwnNode, NodeId{7}, NodeId{8}}) {
      REQUIRE(job.to<wire::CoordinatorIsDone>(node).size() == 1);
      CHECK(job.to<wire::CoordinatorIsDone>(node)[0].cause.signal == 15);
    }
  }
}

TEST_CASE("signals to all nodes end the job in any order") {
  for (const bool first_is_last : {true, false}) {
    Job job = elastic_job(1);
    if (!first_is_last) job.says(kOwnNode, wire::NodeFailed{0, asked()});
    job.says(8, wire::NodeFailed{0, asked()}).says(7, wire::NodeFailed{0, asked()});
    if (first_is_last) job.says(kOwnNode, wire::NodeFailed{0, asked()});
    for (const NodeId node : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(node, ended());
    for (const NodeId node : {kOwnNode, NodeId{7}, NodeId{8}}) {
      REQUIRE(job.to<wire::CoordinatorIsDone>(node).size() == 1);
      CHECK(job.to<wire::CoordinatorIsDone>(node)[0].cause.exit_code == 143);
    }
  }
}

TEST_CASE("a second request to a leaving node ends the job") {
  Job job = elastic_job(1);
  job.says(8, wire::NodeFailed{0, asked()});
  wire::Cause urgent = asked(15, true);
  urgent.is_urgent = true;
  job.says(8, wire::NodeFailed{0, urgent});
  CHECK(job.to<wire::CoordinatorEnds>(7).back().cause.is_urgent);
  for (const NodeId node : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(node, ended());
  CHECK(dones(job, 8) == Codes{143});
  CHECK(job.to<wire::CoordinatorIsDone>(7).size() == 1);
}

TEST_CASE("a node that is asked to end between attempts leaves at once") {
  Job job = elastic_job(1);
  job.says(7, wire::NodeFailed{0, failure()});
  for (const NodeId node : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(node, ended());
  job.says(8, wire::NodeFailed{0, asked()});
  CHECK(dones(job, 8) == Codes{143});
  job.passes(3s, {7});
  CHECK(job.to<wire::CoordinatorBegins>(7).size() == 2);
  CHECK(job.to<wire::CoordinatorBegins>(8).size() == 1);
}

TEST_CASE("a node that was asked to save leaves with exit code 75, and the job continues with the others") {
  Job job = elastic_job(1);
  job.says(8, ended(true)).says(7, ended()).says(kOwnNode, ended());
  REQUIRE(job.to<wire::CoordinatorIsDone>(8).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(8)[0].cause.has_saved);
  job.passes(3s, {7});
  CHECK(job.to<wire::CoordinatorBegins>(7).size() == 2);
  SECTION("unless the first node was asked, too") {
    Job all = elastic_job(1);
    all.says(8, ended(true)).says(7, ended()).says(kOwnNode, ended(true));
    REQUIRE(all.to<wire::CoordinatorIsDone>(7).size() == 1);
    CHECK(all.to<wire::CoordinatorIsDone>(7)[0].cause.has_saved);
  }
}

TEST_CASE("after a request to save, a failure leads to no restart and the exit code is 75") {
  CoordinatorOptions options;
  options.max_restarts = 3;
  for (const NodeId was_asked : {kOwnNode, NodeId{7}}) {
    Job job(options);  // of two nodes, which cannot go on with one
    job.comes(7, node("b")).says(kOwnNode, wire::NodeFailed{0, failure()});
    job.says(7, ended(was_asked == 7)).says(kOwnNode, ended(was_asked == kOwnNode));
    for (const NodeId node : {kOwnNode, NodeId{7}}) CHECK(dones(job, node) == Codes{75});
    CHECK(
        job.to<wire::CoordinatorIsDone>(7)[0].cause.not_restarted.starts_with("not restarted: the program was asked"));
    CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.code == wire::CauseCode::preempted);
  }
  SECTION("if no attempt would follow, the failure's exit code stays") {
    options.max_restarts = 0;
    Job job(options);
    job.comes(7, node("b")).says(kOwnNode, wire::NodeFailed{0, failure()});
    job.says(7, ended()).says(kOwnNode, ended(true));
    CHECK(dones(job, 7) == Codes{3});
  }
  SECTION("a job that can go on without the node goes on") {
    Job job = elastic_job(1);
    job.says(8, wire::NodeFailed{0, failure()}).says(8, ended(true)).says(7, ended()).says(kOwnNode, ended());
    CHECK(dones(job, 8) == Codes{75});
    CHECK(job.to<wire::CoordinatorIsDone>(8)[0].cause.code == wire::CauseCode::preempted);
    job.passes(3s, {7});
    CHECK(job.to<wire::CoordinatorBegins>(7).size() == 2);
  }
}

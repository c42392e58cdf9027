#include "launcher/start/doctor/between/check_decision.h"

#include "support/catch.h"
#include "unit/launcher/start/doctor/between/made_job.h"

using namespace ddp::launcher;
using namespace ddp::launcher::doctor;

namespace {

NodesPlan plan(int min, int max) {
  NodesPlan nodes;
  nodes.min = min;
  nodes.max = max;
  nodes.asked = std::to_string(min) + ":" + std::to_string(max);
  return nodes;
}

// Returns what node `own` of three decides if a check fails on the `bad` ones.
CheckDecision decision(int own, const std::vector<int>& bad, const NodesPlan& nodes) {
  NodeResult result{own, 3, healthy_job(3)};
  for (const int node : bad) {
    result.job.findings.at(static_cast<std::size_t>(node))
        .findings.push_back({"memory", Grade::fail, "no room", "buy some"});
  }
  return decide_on_check(result, nodes);
}

std::string last_line(const CheckDecision& decision) {
  REQUIRE_FALSE(decision.lines.empty());
  return decision.lines.back().text;
}

}  // namespace

TEST_CASE("a job of healthy nodes starts without a word") {
  const CheckDecision all = decision(0, {}, plan(2, 3));
  CHECK(all.starts);
  CHECK(all.lines.empty());
  CHECK(all.nodes == 3);
}

TEST_CASE("a bad node is left out if enough remain") {
  const CheckDecision first = decision(0, {1}, plan(2, 3));
  CHECK(first.starts);
  CHECK(first.nodes == 2);
  CHECK(first.lines.front().text == "check of node 1 (b): memory: no room (try: buy some)");
  CHECK(last_line(first) == "node 1 (b) is left out of the job, which starts on 2 nodes");

  const CheckDecision itself = decision(1, {1}, plan(2, 3));
  CHECK_FALSE(itself.starts);
  CHECK(itself.lines.front().level == LogLevel::error);
  CHECK_THAT(last_line(itself), Catch::StartsWith("this node is left out of the job"));

  const CheckDecision other = decision(2, {1}, plan(2, 3));
  CHECK(other.starts);
  CHECK(other.lines.empty());
}

TEST_CASE("a job does not start without the nodes that it needs") {
  for (const int own : {0, 1, 2}) {
    const CheckDecision needs_all = decision(own, {1}, plan(3, 3));
    CHECK_FALSE(needs_all.starts);
    CHECK(
        last_line(needs_all) ==
        "the job does not start: node 1 (b) fails a check, and --nnodes=3:3 needs 3 nodes. ddplaunch doctor, with the "
        "same options, shows more");
    const CheckDecision first_is_bad = decision(own, {0}, plan(1, 3));
    CHECK_FALSE(first_is_bad.starts);
    CHECK_THAT(last_line(first_is_bad), Catch::Contains("a check fails on node 0, at which the others meet"));
  }
}

TEST_CASE("a single node that fails does not start") {
  NodeResult result{0, 1, {}};
  result.job.findings = {{0, "a", 1, 0, {{"memory", Grade::warn, "little", "buy more"}}, {}}};
  CheckDecision one = decide_on_check(result, plan(1, 1));
  CHECK(one.starts);
  CHECK(last_line(one) == "check of this node: memory: little (try: buy more)");
  result.job.findings[0].findings[0].grade = Grade::fail;
  one = decide_on_check(result, plan(1, 1));
  CHECK_FALSE(one.starts);
  CHECK_THAT(last_line(one), Catch::StartsWith("the job does not start: a check fails."));
}

TEST_CASE("after a hang, only what collectives use is shown, with the cause, and by the first node") {
  NodeResult result{0, 2, healthy_job(2)};
  CHECK(explain_hang(result).lines.front().level == LogLevel::note);
  CHECK(explain_hang(result).fallback.empty());
  const Finding proof = {"peer-writes", Grade::fail, "GPU 0 → GPU 1: writes never arrive", "disable P2P",
                         "NCCL_P2P_DISABLE=1"};
  Findings& of_second = result.job.findings[1].findings;
  of_second.push_back({"clock", Grade::warn, "no time server", "start one"});
  of_second.push_back({"peer-access", Grade::unknown, "only root can read it", "sudo"});
  of_second.push_back(proof);
  const HangFindings found = explain_hang(result);
  REQUIRE(found.lines.size() == 2);
  CHECK(found.lines[0].text ==
        "check of node 1 (b): peer-writes: GPU 0 → GPU 1: writes never arrive (try: disable P2P)");
  CHECK(found.lines[1].text == "check of node 1 (b): peer-access: only root can read it (try: sudo)");
  CHECK(found.fallback == "NCCL_P2P_DISABLE=1");
  result.job.findings[1].findings = {{"peer-writes", Grade::unknown, "no room", "later"}};
  CHECK(explain_hang(result).lines.at(0).text == "check of node 1 (b): peer-writes: no room (try: later)");
  result.job.findings[1].findings = {proof};
  result.node = 1;
  CHECK(explain_hang(result).lines.empty());
  CHECK(explain_hang(result).fallback == "NCCL_P2P_DISABLE=1");
}

TEST_CASE("after a hang, a way without a fallback leaves none") {
  NodeResult result{0, 2, healthy_job(2)};
  result.job.findings[0].findings.push_back({"peer-writes", Grade::fail, "mirror", "x", "NCCL_P2P_DISABLE=1"});
  result.job.findings[1].findings.push_back({"peer-writes", Grade::fail, "host memory as well", "x", ""});
  CHECK(explain_hang(result).fallback.empty());
  result.job.findings[1].findings.pop_back();
  path_of(result.job, 0, 1).ports.assign(3, Reach::dropped);
  path_of(result.job, 0, 1).large = Flow::unknown;
  CHECK(explain_hang(result).fallback.empty());
}

TEST_CASE("the proof beside workers is shown with its cause, and nothing is said about what was not proved") {
  const Finding proof = {"peer-writes", Grade::fail, "GPU 0 → GPU 1: writes never arrive", "disable P2P",
                         "NCCL_P2P_DISABLE=1"};
  const Finding cause = {"peer-access", Grade::warn, "ACS is on", "setpci"};
  const Finding other = {"gpu-health", Grade::warn, "memory is used", "fuser"};
  const Finding good = {"peer-writes", Grade::ok, "GPU 0 ↔ GPU 1: all arrive", ""};
  const auto broken = explain_proof("this node", {cause, other, proof});
  REQUIRE(broken.size() == 2);
  CHECK(broken[0].level == LogLevel::error);
  CHECK(broken[0].text ==
        "check of this node, beside its workers: peer-writes: GPU 0 → GPU 1: writes never arrive (try: disable P2P)");
  CHECK(broken[1].text == "check of this node, beside its workers: peer-access: ACS is on (try: setpci)");
  const Finding no_cause = {"peer-access", Grade::unknown, "not known", "ddplaunch doctor --deep proves it"};
  CHECK(explain_proof("node b", {no_cause, proof}).at(1).text ==
        "check of node b, beside its workers: peer-access: not known");
  const auto fine = explain_proof("node b", {cause, other, good});
  REQUIRE(fine.size() == 1);
  CHECK(fine[0].level == LogLevel::note);
  CHECK(fine[0].text == "check of node b, beside its workers: peer-writes: GPU 0 ↔ GPU 1: all arrive");
  const auto not_made = explain_proof("node b", {cause, {"peer-writes", Grade::unknown, "no room", "later"}});
  REQUIRE(not_made.size() == 1);
  CHECK(not_made[0].level == LogLevel::note);
  CHECK(explain_proof("node b", {other}).empty());
}

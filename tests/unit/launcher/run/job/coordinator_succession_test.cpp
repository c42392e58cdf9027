// Tests how a coordinator lets others know who may follow it, and how it takes over a job itself.
#include <chrono>

#include "launcher/limits.h"
#include "launcher/run/job/coordinator.h"
#include "support/catch.h"
#include "support/coordinator_job.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;
using Job = CoordinatorJob;

namespace {

CoordinatorOptions options_of(int nodes) {
  CoordinatorOptions options;
  options.job_key = "k";
  options.nodes.min = 1;
  options.nodes.max = nodes;
  options.nodes.last_call = 1s;
  options.max_restarts = 3;
  return options;
}

wire::NodeHello listening(const std::string& host) {
  wire::NodeHello hello = node(host);
  hello.port = 29400;
  return hello;
}

// Returns what node `node_rank` of attempt 0 with three nodes says after the death of the coordinator.
wire::Vote vote(int node_rank, bool has_ended = false) {
  return {"k", 0, {0, 3, -1, {0}}, {}, {{0, node_rank}}, has_ended};
}

wire::NodeHello voter(const std::string& host, const wire::Vote& vote) {
  wire::NodeHello hello = listening(host);
  hello.vote = vote;
  return hello;
}

// Returns the job of a coordinator that was node 1, and whose attempt began a minute ago.
Job taken_over() {
  CoordinatorOptions options = options_of(3);
  options.job_key.clear();
  const wire::Cause cause{
      .text = "the first node is lost", .exit_code = 125, .may_restart = true, .code = wire::CauseCode::lost_node};
  return Job(options, wire::kAnyNodeRank, Takeover{vote(1), cause, Coordinator::TimePoint(59min)});
}

}  // namespace

TEST_CASE("each node learns which nodes may succeed the coordinator") {
  Job job(options_of(3));
  job.comes(7, listening("b")).comes(8, node("c"));
  const auto begins = job.to<wire::CoordinatorBegins>(8);
  REQUIRE(begins.size() == 1);
  const wire::Standing& standing = begins[0].standing;
  CHECK(standing.job_key == "k");
  CHECK(standing.electorate == wire::Electorate{0, 3, 0, {}});
  CHECK(standing.successors == std::vector<wire::Successor>{{1, "10.0.0.7", 29400}});  // c does not listen
}

TEST_CASE("a new attempt replaces the electorate when a majority of the old nodes confirms it") {
  Job job(options_of(3));
  job.comes(7, listening("b")).comes(8, listening("c"));
  for (const NodeId id : {7, 8}) job.says(id, wire::NodeHeartbeat{0, {}});
  job.says(7, wire::NodeFailed{0, failure()});
  for (const NodeId id : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(id, wire::NodeEnded{.attempt = 0});
  job.passes(3s, {7, 8});
  REQUIRE(job.to<wire::CoordinatorBegins>(8).size() == 2);
  CHECK(job.to<wire::CoordinatorBegins>(8)[1].standing.electorate.attempt == 0);
  CHECK(job.to<wire::NodeHeartbeat>(8).back().electorate.attempt == 0);
  job.says(8, wire::NodeHeartbeat{1, {}}).passes(2ms, {7});
  CHECK(job.to<wire::NodeHeartbeat>(7).back().electorate == wire::Electorate{1, 3, 0, {}});
}

TEST_CASE("a lost node belongs to no electorate") {
  Job job(options_of(3));
  job.comes(7, listening("b")).comes(8, listening("c")).loses(8).passes(2ms, {7});
  CHECK(job.to<wire::NodeHeartbeat>(7).back().electorate == wire::Electorate{0, 3, 0, {2}});
}

TEST_CASE("a silent node is refused before its connection is closed") {
  Job job(options_of(3));
  job.comes(7, listening("b")).comes(8, listening("c"));
  for (int i = 0; i < 11; ++i) job.passes(1s).answers(7);
  CHECK(job.to<wire::CoordinatorRefuses>(8).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode).empty());
}

TEST_CASE("a node that takes over begins the next attempt when most nodes have joined") {
  Job heir = taken_over();
  heir.says(8, voter("c", vote(2)));
  CHECK(heir.to<wire::NodeHeartbeat>(8).back().electorate == wire::Electorate{0, 3, 1, {0}});
  heir.says(kOwnNode, wire::NodeEnded{.attempt = 0, .progress = wire::Progress::some});
  CHECK(heir.to<wire::CoordinatorRestarts>(8).empty());
  heir.says(8, wire::NodeEnded{.attempt = 0, .progress = wire::Progress::some});
  // The vote counts when the node has answered.
  CHECK(heir.to<wire::CoordinatorRestarts>(8).empty());
  heir.answers(8);
  heir.passes(limits::kElectionPoll);
  REQUIRE(heir.to<wire::CoordinatorRestarts>(8).size() == 1);
  for (int i = 0; i < 30 && heir.to<wire::CoordinatorBegins>(8).empty(); ++i) {
    heir.answers(8);
    heir.passes(100ms);
  }
  REQUIRE(heir.to<wire::CoordinatorBegins>(8).size() == 1);
  const wire::CoordinatorBegins begins = heir.to<wire::CoordinatorBegins>(8)[0];
  CHECK(begins.attempt == 1);
  CHECK(begins.node_rank == 1);
  CHECK(begins.standing.job_key == "k");
  CHECK(heir.to<wire::CoordinatorBegins>(kOwnNode)[0].node_rank == 0);
}

TEST_CASE("a node that takes over ends if most of the other nodes do not join") {
  Job heir = taken_over();
  heir.says(kOwnNode, wire::NodeEnded{.attempt = 0});
  heir.passes(29s);
  CHECK(heir.to<wire::CoordinatorIsDone>(kOwnNode).empty());
  heir.passes(2s);
  REQUIRE(heir.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
  const wire::Cause cause = heir.to<wire::CoordinatorIsDone>(kOwnNode)[0].cause;
  CHECK(cause.exit_code == 125);
  CHECK(cause.text.find("only 1 of 2 nodes") != std::string::npos);
}

TEST_CASE("the coordinator stops waiting for a voter that is lost again") {
  Job heir = taken_over();
  heir.says(8, voter("c", vote(2, true)));
  heir.loses(8);
  heir.says(kOwnNode, wire::NodeEnded{.attempt = 0});
  // It has lost this coordinator, too, so it follows no other one.
  heir.passes(limits::kElectionPoll);
  REQUIRE(heir.to<wire::CoordinatorRestarts>(kOwnNode).size() == 1);
}

TEST_CASE("a node of another job is refused, and a late node of this job waits") {
  Job heir = taken_over();
  wire::Vote other = vote(2);
  other.job_key = "another";
  heir.says(9, voter("x", other));
  CHECK(heir.to<wire::CoordinatorRefuses>(9).size() == 1);
  heir.says(8, voter("c", vote(2, true)));
  heir.says(8, wire::NodeEnded{.attempt = 0});
  heir.says(kOwnNode, wire::NodeEnded{.attempt = 0});
  heir.answers(8);
  heir.passes(limits::kElectionPoll);
  // One whose workers still end comes when the election is over. It waits until they have ended.
  wire::Vote late = vote(2);
  heir.says(10, voter("d", late));
  for (int i = 0; i < 30; ++i) {
    heir.answers(8);
    heir.answers(10);
    heir.passes(100ms);
  }
  CHECK(heir.to<wire::CoordinatorBegins>(8).size() == 1);
  CHECK(heir.to<wire::CoordinatorBegins>(10).empty());
}

TEST_CASE("a new attempt never reuses a number that a late node has seen") {
  Job heir = taken_over();
  heir.says(8, voter("c", vote(2, true)));
  for (const NodeId id : {NodeId{8}, kOwnNode}) heir.says(id, wire::NodeEnded{.attempt = 0});
  heir.answers(8);
  heir.passes(limits::kElectionPoll);
  REQUIRE(heir.to<wire::CoordinatorRestarts>(8).size() == 1);
  wire::Vote late = vote(1, true);
  late.attempt = 1;
  late.memberships = {{0, 1}, {1, 1}};
  heir.says(10, voter("d", late));
  for (int i = 0; i < 30; ++i) {
    for (const NodeId id : {8, 10}) heir.answers(id);
    heir.passes(100ms);
  }
  REQUIRE(heir.to<wire::CoordinatorBegins>(10).size() == 1);
  CHECK(heir.to<wire::CoordinatorBegins>(10)[0].attempt == 2);
}

TEST_CASE("a node of another coordinator's attempt is not in the electorate of the attempt with the same number") {
  Job heir = taken_over();
  heir.says(8, voter("c", vote(2, true)));
  for (const NodeId id : {NodeId{8}, kOwnNode}) heir.says(id, wire::NodeEnded{.attempt = 0});
  for (int i = 0; i < 30; ++i) {
    heir.answers(8, 1);
    heir.passes(100ms);
  }
  REQUIRE(heir.to<wire::CoordinatorBegins>(8).size() == 1);
  heir.says(8, wire::NodeFailed{1, failure()});
  for (const NodeId id : {NodeId{8}, kOwnNode}) heir.says(id, wire::NodeEnded{.attempt = 1});
  // Node d was node 1 of attempt 1 of another coordinator.
  wire::Vote late = vote(1, true);
  late.attempt = 1;
  late.memberships = {{1, 1}};
  heir.says(10, voter("d", late)).loses(10).passes(2ms);
  CHECK(heir.to<wire::NodeHeartbeat>(8).back().electorate == wire::Electorate{1, 2, 0, {}});
}

TEST_CASE("a coordinator without answers from half of the nodes stops leading") {
  const auto silence = [](int nodes, std::vector<NodeId> live) {
    CoordinatorOptions options = options_of(nodes);
    options.nodes.min = nodes;
    Job job(options);
    for (NodeId id = 7; id < 7 + static_cast<NodeId>(nodes) - 1; ++id)
      job.comes(id, listening("b" + std::to_string(id)));
    for (int i = 0; i < 120; ++i) {
      job.passes(100ms, live);
      for (const NodeId id : live) job.answers(id);
    }
    return job.to<wire::CoordinatorIsDone>(kOwnNode);
  };
  REQUIRE(silence(3, {}).size() == 1);
  CHECK(silence(3, {})[0].cause.text.find("they may go on without it") != std::string::npos);
  CHECK(silence(3, {})[0].cause.is_urgent);
  CHECK(silence(3, {7}).empty());
  CHECK(silence(2, {}).empty());
  CHECK(silence(4, {7}).empty());
  CHECK(silence(5, {7}).size() == 1);
}

TEST_CASE("a coordinator that has stopped leading refuses no node") {
  Job job(options_of(3));
  job.comes(7, listening("b")).comes(8, listening("c"));
  job.now += 11s;
  job.passes(1ms);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
  CHECK(job.to<wire::CoordinatorRefuses>(7).empty());
  CHECK(job.count<CloseNode>() == 0);
}

TEST_CASE("a delayed message does not prove that a node is alive") {
  CoordinatorOptions options = options_of(3);
  Job job(options);
  job.comes(7, listening("b")).comes(8, listening("c"));
  const auto sent_at = std::chrono::nanoseconds(job.now.time_since_epoch()).count();
  for (int i = 0; i < 120; ++i) {
    job.passes(100ms, {7, 8});
    for (const NodeId id : {7, 8}) job.says(id, wire::NodeHeartbeat{0, {}, sent_at});
  }
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
}

TEST_CASE("a first node that gets SIGTERM leaves the job to the other nodes") {
  CoordinatorOptions options = options_of(3);
  const wire::Cause term{.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15, .may_restart = true};
  Job job(options);
  job.comes(7, listening("b")).comes(8, listening("c")).says(kOwnNode, wire::NodeFailed{0, term});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.may_restart);
  for (const NodeId id : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(id, wire::NodeEnded{.attempt = 0});
  CHECK(job.to<wire::CoordinatorIsDone>(7).empty());  // they see the end of the connection
  REQUIRE(job.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode)[0].cause.signal == 15);
  job.passes(1ms);
  CHECK(job.count<CoordinatorIsThrough>() == 1);
  SECTION("but not for Ctrl-C") {
    wire::Cause interrupt = term;
    interrupt.signal = 2;
    Job other(options);
    other.comes(7, listening("b")).comes(8, listening("c")).says(kOwnNode, wire::NodeFailed{0, interrupt});
    CHECK_FALSE(other.to<wire::CoordinatorEnds>(7)[0].cause.may_restart);
  }
}

TEST_CASE("a coordinator keeps leading if the other nodes have left on request") {
  Job job(options_of(3));
  job.comes(7, listening("b")).comes(8, listening("c"));
  const wire::Cause term{.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15, .may_restart = true};
  for (const NodeId id : {7, 8}) job.says(id, wire::NodeFailed{0, term});
  for (const NodeId id : {kOwnNode, NodeId{7}, NodeId{8}}) job.says(id, wire::NodeEnded{.attempt = 0});
  job.passes(30s);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode).empty());
  CHECK(job.to<wire::CoordinatorBegins>(kOwnNode).size() == 2);
}

TEST_CASE("many new nodes do not end the coordinator that accepts them") {
  CoordinatorOptions options = options_of(8);
  options.nodes.last_call = 0ms;
  Job job(options);
  job.comes(7, listening("b"));
  job.says(7, wire::NodeFailed{0, failure()});
  for (NodeId id = 8; id < 14; ++id) job.comes(id, listening("n" + std::to_string(id)));
  for (const NodeId id : {kOwnNode, NodeId{7}}) job.says(id, wire::NodeEnded{.attempt = 0});
  for (int i = 0; i < 50; ++i) {
    job.passes(100ms);
    const auto sent_at = std::chrono::nanoseconds(job.now.time_since_epoch()).count();
    for (NodeId id = 7; id < 14; ++id) job.says(id, wire::NodeHeartbeat{1, {}, i < 8 ? 0 : sent_at});
  }
  CHECK(job.to<wire::CoordinatorBegins>(13).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode).empty());
}

TEST_CASE("the IPv6 address of a successor has no brackets") {
  Job job(options_of(2));
  job.says(9, wire::NodeHeartbeat{});
  wire::NodeHello hello = listening("b");
  for (auto& action : job.coordinator->heard(7, "[fd00::2]", hello, job.now)) job.actions.push_back(action);
  REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(7)[0].standing.successors[0].address == "fd00::2");
}

TEST_CASE("a node that only asks for the identity of the job is not admitted") {
  Job job(options_of(3));
  job.comes(7, listening("b"));
  wire::Vote question;
  question.job_key = "k";
  job.comes(9, voter("c", question));
  REQUIRE(job.to<wire::CoordinatorRefuses>(9).size() == 1);
  CHECK(job.to<wire::CoordinatorRefuses>(9)[0].job_key == "k");
}

namespace {

using Claimed = ClaimAnswer::Kind;

// Returns a job of two nodes with a witness, whose attempt 0 runs.
Job with_witness() {
  CoordinatorOptions options = options_of(2);
  options.nodes.witness = "/w";
  Job job(options);
  job.comes(7, listening("b"));
  job.answers(7);
  return job;
}

std::vector<wire::CoordinatorIsDone> ends_of(const Job& job) {
  return job.to<wire::CoordinatorIsDone>(kOwnNode);
}

}  // namespace

TEST_CASE("with a witness, a coordinator claims the job when the other node is silent") {
  Job job = with_witness();
  job.passes(9'900ms);
  CHECK(job.count<ClaimElectorate>() == 0);
  job.passes(200ms);
  REQUIRE(job.count<ClaimElectorate>() == 1);
  CHECK(job.coordinator->leads(job.now));
  // It does not give up the node before it has the claim.
  CHECK(job.to<wire::CoordinatorRefuses>(7).empty());
  SECTION("and leads on if it is granted") {
    job.is_claimed(0, {Claimed::granted}).passes(60s);
    CHECK(ends_of(job).empty());
    CHECK(job.to<wire::CoordinatorRefuses>(7).size() == 1);
    job.says(kOwnNode, wire::NodeEnded{.attempt = 0}).passes(10s);
    REQUIRE(job.to<wire::CoordinatorBegins>(kOwnNode).size() == 2);
    CHECK(job.coordinator->leads(job.now));
    CHECK(job.count<ClaimElectorate>() == 1);
  }
  SECTION("and ends if the other node was first") {
    job.is_claimed(0, {Claimed::taken, "b (pid 7)"});
    CHECK_FALSE(job.coordinator->leads(job.now));
    REQUIRE(ends_of(job).size() == 1);
    CHECK(ends_of(job)[0].cause.text ==
          "this node has no answer from the other one for 10.0 s, and b (pid 7) has "
          "claimed the job before, in the witness /w");
    CHECK(ends_of(job)[0].cause.is_urgent);
    CHECK(ends_of(job)[0].cause.exit_code == 125);
  }
  SECTION("and ends in time if the witness hangs") {
    job.passes(1'100ms);
    CHECK(ends_of(job).empty());
    job.passes(100ms);
    REQUIRE(ends_of(job).size() == 1);
    CHECK(ends_of(job)[0].cause.text.ends_with("the witness /w does not answer"));
    job.is_claimed(0, {Claimed::granted});
    CHECK_FALSE(job.coordinator->leads(job.now));
  }
  SECTION("and repeats a claim that has failed") {
    job.is_claimed(0, {Claimed::failed, "no space"}).passes(150ms);
    REQUIRE(job.count<ClaimElectorate>() == 2);
    SECTION("until it is granted") {
      job.is_claimed(0, {Claimed::granted}).passes(60s);
      CHECK(ends_of(job).empty());
    }
    SECTION("until it is too late") {
      job.is_claimed(0, {Claimed::failed, "no space"}).passes(1'200ms);
      REQUIRE(ends_of(job).size() == 1);
    }
  }
  SECTION("and leads on if the other node answers again") {
    job.answers(7);
    job.is_claimed(0, {Claimed::failed, "no space"});
    job.passes(2s, {7});
    CHECK(ends_of(job).empty());
    CHECK(job.coordinator->leads(job.now));
  }
}

TEST_CASE("with a witness, a coordinator that was stopped for too long ends") {
  Job job = with_witness();
  job.now += 11'300ms;
  job.passes(1ms);
  CHECK(job.count<ClaimElectorate>() == 0);
  REQUIRE(ends_of(job).size() == 1);
  CHECK(ends_of(job)[0].cause.text.ends_with("it was too late to claim the job in the witness /w"));
}

TEST_CASE("the coordinator claims the job at the witness after a broken connection but not after an orderly end") {
  Job job = with_witness();
  SECTION("ended") {
    job.loses(7).passes(60s);
    CHECK(job.count<ClaimElectorate>() == 0);
    CHECK(ends_of(job).empty());
  }
  SECTION("broken") {
    job.loses(7, /*in_order=*/false);
    CHECK(job.count<ClaimElectorate>() == 1);
    CHECK(ends_of(job).empty());
    // The next attempt may begin meanwhile.
    job.says(kOwnNode, wire::NodeEnded{.attempt = 0}).passes(9s);
    CHECK(job.to<wire::CoordinatorBegins>(kOwnNode).size() == 2);
    CHECK(job.coordinator->leads(job.now));
    SECTION("and granted") {
      job.is_claimed(0, {Claimed::granted}).passes(60s);
      CHECK(ends_of(job).empty());
      CHECK(job.count<ClaimElectorate>() == 1);
    }
    SECTION("and refused") {
      job.is_claimed(0, {Claimed::taken, "b"});
      CHECK(ends_of(job).size() == 1);
    }
    SECTION("and not answered") {
      job.passes(2'200ms);
      CHECK(ends_of(job).empty());
      job.passes(200ms);
      CHECK(ends_of(job).size() == 1);
    }
  }
}

TEST_CASE("with a witness, the next attempt has its own electorate") {
  Job job = with_witness();
  job.says(7, wire::NodeFailed{0, failure()});
  for (const NodeId id : {kOwnNode, NodeId{7}}) job.says(id, wire::NodeEnded{.attempt = 0});
  for (int i = 0; i < 30; ++i) {
    job.passes(100ms, {7});
    job.answers(7);
  }
  REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 2);
  // The node does not know of the attempt, and could still claim the old electorate.
  CHECK(job.to<wire::NodeHeartbeat>(7).back().electorate.attempt == 0);
  job.answers(7, 1).passes(2ms);
  CHECK(job.to<wire::NodeHeartbeat>(7).back().electorate == wire::Electorate{1, 2, 0, {}});
  job.passes(10s);
  REQUIRE(job.count<ClaimElectorate>() == 1);
  job.is_claimed(0, {Claimed::granted});
  CHECK(ends_of(job).empty());
  job.passes(1s).is_claimed(1, {Claimed::granted}).passes(60s);
  CHECK(ends_of(job).empty());
}

TEST_CASE("three nodes do not need a witness") {
  CoordinatorOptions options = options_of(3);
  options.nodes.witness = "/w";
  Job job(options);
  job.comes(7, listening("b")).comes(8, listening("c")).passes(11s, {7});
  CHECK(job.count<ClaimElectorate>() == 0);
  CHECK(ends_of(job).size() == 1);
}

TEST_CASE("with a witness, the other of two nodes claims the job of a silent coordinator") {
  CoordinatorOptions options = options_of(2);
  options.job_key.clear();
  options.nodes.witness = "/w";
  const wire::Cause cause{
      .text = "the first node is lost", .exit_code = 125, .may_restart = true, .code = wire::CauseCode::lost_node};
  const wire::Vote own{"k", 0, {0, 2, -1, {}}, {}, {{0, 1}}, false};
  Job heir(options, wire::kAnyNodeRank, Takeover{own, cause, Coordinator::TimePoint(59min)});
  heir.passes(1ms);
  REQUIRE(heir.count<ClaimElectorate>() == 1);
  SECTION("granted") {
    heir.is_claimed(0, {Claimed::granted});
    CHECK_FALSE(heir.coordinator->leads(heir.now));  // its workers still end
    heir.says(kOwnNode, wire::NodeEnded{.attempt = 0}).passes(10s);
    CHECK(heir.coordinator->leads(heir.now));
    REQUIRE(heir.to<wire::CoordinatorBegins>(kOwnNode).size() == 1);
    CHECK(heir.to<wire::CoordinatorBegins>(kOwnNode)[0].attempt == 1);
    CHECK(heir.messages()[0] == "this node leads the job now, with 1 of 2 nodes and the witness /w");
  }
  SECTION("refused") {
    heir.is_claimed(0, {Claimed::taken, "a (pid 3)"});
    REQUIRE(ends_of(heir).size() == 1);
    CHECK(ends_of(heir)[0].cause.text ==
          "the first node is lost, and a (pid 3) has claimed the job before, in the witness /w");
  }
  SECTION("not answered") {
    heir.passes(29s);
    CHECK(ends_of(heir).empty());
    heir.passes(2s);
    REQUIRE(ends_of(heir).size() == 1);
    CHECK(ends_of(heir)[0].cause.text.ends_with("the witness /w does not answer"));
  }
  SECTION("not if it was asked to save and leave") {
    Job leaver(options, wire::kAnyNodeRank, Takeover{own, cause, Coordinator::TimePoint(59min)});
    leaver.says(kOwnNode, wire::NodeEnded{.attempt = 0, .was_asked_to_save = true}).passes(31s);
    CHECK(leaver.count<ClaimElectorate>() == 0);
    CHECK(ends_of(leaver).size() == 1);
  }
}

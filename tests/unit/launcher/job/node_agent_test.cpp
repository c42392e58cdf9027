#include "launcher/job/node_agent.h"

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

const NodeAgent::TimePoint kStart{1h};

wire::Cause rank_5() {
  return {.text = "rank 5: exited with code 3", .node = "b", .exit_code = 3, .may_restart = true};
}

template <typename Action>
const Action& only(const std::vector<NodeAction>& actions) {
  REQUIRE(actions.size() == 1);
  REQUIRE(std::holds_alternative<Action>(actions[0]));
  return std::get<Action>(actions[0]);
}

}  // namespace

TEST_CASE("a node starts its workers when the coordinator begins and says when they have exited") {
  NodeAgent agent("a:29400", 10s, kStart);
  const auto begun = agent.heard(wire::CoordinatorBegins{0, 1, 2, 4, 8, "a, b"}, kStart);
  CHECK(only<StartWorkers>(begun).place.first_rank == 4);
  // A repeated message has no effect.
  CHECK(agent.heard(wire::CoordinatorBegins{0, 1, 2, 4, 8, "a, b"}, kStart).empty());
  const auto ended = agent.workers_ended({.progress = wire::Progress::some});
  CHECK(std::get<wire::NodeEnded>(only<SendToCoordinator>(ended).message).attempt == 0);
  CHECK(agent.workers_ended({.progress = wire::Progress::some}).empty());
  CHECK(only<LeaveJob>(agent.heard(wire::CoordinatorIsDone{}, kStart)).cause.exit_code == 0);
  CHECK(agent.has_left());
}

TEST_CASE("a node ends its workers when the coordinator says so and waits for what follows") {
  NodeAgent agent("a:29400", 10s, kStart);
  CHECK(agent.heard(wire::CoordinatorEnds{0, rank_5()}, kStart).empty());
  agent.heard(wire::CoordinatorBegins{}, kStart);
  CHECK(agent.heard(wire::CoordinatorEnds{7, rank_5()}, kStart).empty());
  CHECK(only<EndWorkers>(agent.heard(wire::CoordinatorEnds{0, rank_5()}, kStart)).cause == rank_5());
  agent.workers_ended({.progress = wire::Progress::some});
  CHECK(only<AttemptFollows>(agent.heard(wire::CoordinatorRestarts{"restart 1 of 3"}, kStart)).line ==
        "restart 1 of 3");
  // If the launcher is asked to end meanwhile, the whole job ends.
  const wire::Cause asked{.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15};
  CHECK(only<SendToCoordinator>(agent.failed(asked)).message == wire::ControlMessage(wire::NodeFailed{0, asked}));
  wire::CoordinatorBegins again;
  again.attempt = 1;
  CHECK(only<StartWorkers>(agent.heard(again, kStart)).place.attempt == 1);
  CHECK(only<SendToCoordinator>(agent.failed(rank_5())).message == wire::ControlMessage(wire::NodeFailed{1, rank_5()}));
}

TEST_CASE("a node that loses its coordinator ends its workers and leaves") {
  NodeAgent agent("a:29400", 10s, kStart);
  agent.heard(wire::CoordinatorBegins{}, kStart);
  const auto lost = agent.coordinator_lost("connection reset by peer");
  CHECK(only<EndWorkers>(lost).cause.text == "the first node (a:29400) is lost: connection reset by peer");
  CHECK(agent.coordinator_lost("again").empty());
  CHECK(agent.failed(rank_5()).empty());
  CHECK(only<LeaveJob>(agent.workers_ended({.progress = wire::Progress::some})).cause.exit_code == 125);
  CHECK(agent.heard(wire::CoordinatorIsDone{}, kStart).empty());
}

TEST_CASE("a node that waits and loses its coordinator or is refused leaves at once") {
  NodeAgent lost("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(lost.coordinator_lost("it has closed the connection")).cause.exit_code == 125);
  NodeAgent refused("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(refused.heard(wire::CoordinatorRefuses{"another job"}, kStart)).cause.text ==
        "the job at a:29400 does not accept this node: another job");
}

TEST_CASE("a coordinator that is lost before the job has begun for a node may be found again") {
  NodeAgent agent("a:29400", 10s, kStart);
  CHECK(agent.may_look_again());
  CHECK_FALSE(agent.is_silent(kStart + 9s));
  CHECK(agent.is_silent(kStart + 10s));
  NodeAgent spare("a:29400", 10s, kStart);
  spare.heard(wire::CoordinatorWaits{"the job runs", true}, kStart);
  CHECK_FALSE(spare.may_look_again());
  agent.heard(wire::CoordinatorBegins{}, kStart);
  CHECK_FALSE(agent.may_look_again());
}

TEST_CASE("who is asked to end while the node takes no part leaves") {
  NodeAgent agent("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(agent.failed({.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15})).cause.signal ==
        15);
  // The coordinator's own node ends the job.
  NodeAgent own("a:29400", 0ms, kStart);
  CHECK(std::holds_alternative<wire::NodeFailed>(only<SendToCoordinator>(own.failed(rank_5())).message));
}

TEST_CASE("a node sends a heartbeat once a second and takes a silent coordinator for lost") {
  NodeAgent agent("a:29400", 10s, kStart);
  int heartbeats = 0;
  auto now = kStart;
  std::vector<NodeAction> actions;
  while (!agent.has_left() && now < kStart + 1min) {
    now = agent.alarm();
    actions = agent.tick(now);
    if (!agent.has_left()) {
      CHECK(only<SendToCoordinator>(actions).message == wire::ControlMessage(wire::NodeHeartbeat{}));
      ++heartbeats;
    }
  }
  CHECK(now == kStart + 10s);
  CHECK(heartbeats == 10);
  CHECK(only<LeaveJob>(actions).cause.text == "the first node (a:29400) is lost: it has sent nothing for 10.0 s");
}

TEST_CASE("a node that hears nothing any more tells a coordinator that may hear it why its workers end") {
  NodeAgent agent("a:29400", 10s, kStart);
  agent.heard(wire::CoordinatorBegins{}, kStart);
  const auto actions = agent.tick(kStart + 10s);
  REQUIRE(actions.size() == 2);
  const auto& failed = std::get<wire::NodeFailed>(std::get<SendToCoordinator>(actions[0]).message);
  CHECK(failed.cause.text == "lost: it received nothing from the first node (a:29400) for 10.0 s");
  CHECK(failed.cause.exit_code == 125);
  CHECK(failed.cause.knowledge == wire::Knowledge::certain);
  CHECK(std::get<EndWorkers>(actions[1]).cause.text ==
        "the first node (a:29400) is lost: it has sent nothing for 10.0 s");
}

TEST_CASE("the time in which a node looked for its coordinator does not count as silence") {
  NodeAgent agent("a:29400", 10s, kStart);
  const auto hello = agent.connected({}, kStart + 5min);
  CHECK(std::holds_alternative<wire::NodeHello>(only<SendToCoordinator>(hello).message));
  CHECK(std::holds_alternative<wire::NodeHeartbeat>(only<SendToCoordinator>(agent.tick(kStart + 5min)).message));
  CHECK_FALSE(agent.has_left());
}

TEST_CASE("the coordinator's own node cannot lose it") {
  NodeAgent agent("a:29400", 0ms, kStart);
  CHECK(agent.tick(kStart + 1h).empty());
  CHECK_FALSE(agent.has_left());
}

TEST_CASE("a node that the first one does not let in says so") {
  NodeAgent agent("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(agent.coordinator_refuses("another token")).cause.text ==
        "the first node (a:29400) does not accept this node: another token");
  CHECK(agent.coordinator_refuses("again").empty());
}

#include "launcher/run/job/agent.h"

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

const Agent::TimePoint kStart{1h};

wire::Cause rank_5() {
  return {.text = "rank 5: exited with code 3", .node = "b", .exit_code = 3, .may_restart = true};
}

template <typename Action>
const Action& only(const std::vector<AgentAction>& actions) {
  REQUIRE(actions.size() == 1);
  REQUIRE(std::holds_alternative<Action>(actions[0]));
  return std::get<Action>(actions[0]);
}

}  // namespace

TEST_CASE("a node starts its workers when the coordinator says so and reports their exit") {
  Agent agent("a:29400", 10s, kStart);
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

TEST_CASE("a node terminates its workers when the coordinator says so and waits for the next attempt") {
  Agent agent("a:29400", 10s, kStart);
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

TEST_CASE("a node that loses its coordinator terminates its workers and leaves") {
  Agent agent("a:29400", 10s, kStart);
  agent.heard(wire::CoordinatorBegins{}, kStart);
  const auto lost = agent.coordinator_lost("connection reset by peer");
  CHECK(only<EndWorkers>(lost).cause.text == "the first node (a:29400) is lost: connection reset by peer");
  CHECK(agent.coordinator_lost("again").empty());
  CHECK(agent.failed(rank_5()).empty());
  CHECK(only<LeaveJob>(agent.workers_ended({.progress = wire::Progress::some})).cause.exit_code == 125);
  CHECK(agent.heard(wire::CoordinatorIsDone{}, kStart).empty());
}

TEST_CASE("a waiting node that loses its coordinator or is refused leaves at once") {
  Agent lost("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(lost.coordinator_lost("it has closed the connection")).cause.exit_code == 125);
  Agent refused("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(refused.heard(wire::CoordinatorRefuses{"another job"}, kStart)).cause.text ==
        "the job at a:29400 does not accept this node: another job");
}

TEST_CASE("a node may reconnect to a coordinator that it lost before its job began") {
  Agent agent("a:29400", 10s, kStart);
  CHECK(agent.may_search_again());
  CHECK_FALSE(agent.is_silent(kStart + 9s));
  CHECK(agent.is_silent(kStart + 10s));
  Agent spare("a:29400", 10s, kStart);
  spare.heard(wire::CoordinatorWaits{"the job runs", true}, kStart);
  CHECK_FALSE(spare.may_search_again());
  agent.heard(wire::CoordinatorBegins{}, kStart);
  CHECK_FALSE(agent.may_search_again());
}

TEST_CASE("a request to end makes a node leave if it does not take part") {
  Agent agent("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(agent.failed({.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15})).cause.signal ==
        15);
  // The coordinator's own node ends the job.
  Agent own("a:29400", 0ms, kStart);
  CHECK(std::holds_alternative<wire::NodeFailed>(only<SendToCoordinator>(own.failed(rank_5())).message));
}

TEST_CASE("a node sends a heartbeat each second and gives up a silent coordinator") {
  Agent agent("a:29400", 10s, kStart);
  int heartbeats = 0;
  auto now = kStart;
  std::vector<AgentAction> actions;
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

TEST_CASE("a node that receives nothing tells the coordinator why it terminates its workers") {
  Agent agent("a:29400", 10s, kStart);
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

TEST_CASE("the time in which a node searches for its coordinator does not count as silence") {
  Agent agent("a:29400", 10s, kStart);
  const auto hello = agent.connected({}, kStart + 5min);
  CHECK(std::holds_alternative<wire::NodeHello>(only<SendToCoordinator>(hello).message));
  CHECK(std::holds_alternative<wire::NodeHeartbeat>(only<SendToCoordinator>(agent.tick(kStart + 5min)).message));
  CHECK_FALSE(agent.has_left());
}

TEST_CASE("the coordinator's own node cannot lose the coordinator") {
  Agent agent("a:29400", 0ms, kStart);
  CHECK(agent.tick(kStart + 1h).empty());
  CHECK_FALSE(agent.has_left());
}

TEST_CASE("a node that the first node does not admit reports the refusal") {
  Agent agent("a:29400", 10s, kStart);
  CHECK(only<LeaveJob>(agent.coordinator_refuses("another token")).cause.text ==
        "the first node (a:29400) does not accept this node: another token");
  CHECK(agent.coordinator_refuses("again").empty());
}

namespace {

wire::CoordinatorBegins begins_as(int node_rank) {
  wire::CoordinatorBegins begins{.attempt = 2, .node_rank = node_rank, .node_count = 3};
  begins.standing.job_key = "k";
  begins.standing.electorate = {2, 3, 0, {}};
  begins.standing.successors = {{1, "10.0.0.1", 29400}, {2, "10.0.0.2", 29400}};
  return begins;
}

}  // namespace

TEST_CASE("a node whose coordinator died terminates its workers and votes for a successor") {
  Agent agent("a:29400", 10s, kStart);
  const auto begun = agent.heard(begins_as(2), kStart);
  REQUIRE(begun.size() == 2);
  CHECK(std::get<SendToCoordinator>(begun[0]).message == wire::ControlMessage(wire::NodeHeartbeat{2, {}}));
  REQUIRE(agent.may_outlive_coordinator());
  const auto gone = agent.coordinator_is_gone("it has closed the connection");
  CHECK(only<EndWorkers>(gone).cause.may_restart);
  CHECK(only<EndWorkers>(gone).cause.code == wire::CauseCode::lost_node);
  CHECK(agent.failed(rank_5()).empty());
  agent.coordinator_died();
  REQUIRE(agent.succession().before_this().size() == 1);
  CHECK(agent.succession().may_lead());
  agent.follows(agent.succession().before_this()[0]);
  const auto joined = agent.connected({}, kStart + 1s);
  const auto hello = std::get<wire::NodeHello>(only<SendToCoordinator>(joined).message);
  CHECK(hello.vote.job_key == "k");
  CHECK(hello.vote.electorate.gone == std::vector{0});
  CHECK_FALSE(hello.vote.has_ended);
  const auto ended = agent.workers_ended({.progress = wire::Progress::some});
  CHECK(std::get<wire::NodeEnded>(only<SendToCoordinator>(ended).message).attempt == 2);
}

TEST_CASE("a node repeats its report on the end of its workers to the next coordinator") {
  Agent agent("a:29400", 10s, kStart);
  agent.heard(begins_as(2), kStart);
  agent.coordinator_is_gone("it has closed the connection");
  CHECK(only<AttemptFollows>(agent.workers_ended({.progress = wire::Progress::some}))
            .line.starts_with("the job goes on"));
  agent.coordinator_died();
  agent.follows({1, "10.0.0.1", 29400});
  const auto joined = agent.connected({}, kStart + 1s);
  REQUIRE(joined.size() == 2);
  CHECK(std::get<wire::NodeHello>(std::get<SendToCoordinator>(joined[0]).message).vote.has_ended);
  CHECK(std::get<wire::NodeEnded>(std::get<SendToCoordinator>(joined[1]).message).progress == wire::Progress::some);
  auto next = begins_as(1);
  next.attempt = 3;
  CHECK(agent.heard(next, kStart + 2s).size() == 2);
}

TEST_CASE("a node that becomes coordinator delivers its own reports to itself") {
  Agent agent("a:29400", 10s, kStart);
  agent.heard(begins_as(1), kStart);
  agent.coordinator_is_gone("it has closed the connection");
  agent.coordinator_died();
  CHECK(agent.succession().before_this().empty());
  const Takeover takeover = agent.takeover();
  CHECK(takeover.cause.text == "the first node (a:29400) is lost: it has closed the connection");
  CHECK(takeover.vote.attempt == 2);
  agent.take_over();
  CHECK(agent.leads().empty());
  const auto ended = agent.workers_ended({.progress = wire::Progress::some});
  CHECK(std::holds_alternative<wire::NodeEnded>(only<SendToCoordinator>(ended).message));
}

TEST_CASE("a job that the user has ended does not outlive its coordinator") {
  const auto outlives = [](const wire::Cause& cause) {
    Agent agent("a:29400", 10s, kStart);
    agent.heard(begins_as(2), kStart);
    agent.heard(wire::CoordinatorEnds{2, cause}, kStart);
    return agent.may_outlive_coordinator();
  };
  CHECK(outlives(rank_5()));
  CHECK_FALSE(outlives({.text = "terminated by SIGINT", .exit_code = 130, .signal = 2}));
  Agent done("a:29400", 10s, kStart);
  done.heard(begins_as(2), kStart);
  done.heard(wire::CoordinatorIsDone{rank_5()}, kStart);
  CHECK_FALSE(done.may_outlive_coordinator());
  Agent without_restarts("a:29400", 10s, kStart);
  without_restarts.heard(wire::CoordinatorBegins{}, kStart);
  CHECK_FALSE(without_restarts.may_outlive_coordinator());
}

TEST_CASE("a user can end a node that has no coordinator") {
  Agent agent("a:29400", 10s, kStart);
  agent.heard(begins_as(2), kStart);
  agent.coordinator_is_gone("it has closed the connection");
  agent.workers_ended({});
  CHECK(only<LeaveJob>(agent.failed({.text = "terminated by SIGINT", .exit_code = 130, .signal = 2})).cause.signal ==
        2);
}

TEST_CASE("a node leaves a silent coordinator later than the coordinator gives up the node") {
  Agent agent("a:29400", 10s, kStart);
  agent.heard(begins_as(1), kStart);
  for (auto now = kStart; now <= kStart + 9s; now += 1s) {
    agent.tick(now);
    CHECK_FALSE(agent.may_leave_silent_coordinator(now));
  }
  bool has_ended_workers = false;
  for (const AgentAction& action : agent.tick(kStart + 10s)) {
    has_ended_workers = has_ended_workers || std::holds_alternative<EndWorkers>(action);
  }
  CHECK(has_ended_workers);
  CHECK_FALSE(agent.may_leave_silent_coordinator(kStart + 12s));
  CHECK(agent.may_leave_silent_coordinator(kStart + 12500ms));
  SECTION("unless it hears of it again") {
    agent.workers_ended({.progress = wire::Progress::some});
    const auto again = agent.heard(wire::NodeHeartbeat{-1, {2, 3, 0, {}}, 7}, kStart + 12500ms);
    CHECK_FALSE(agent.may_leave_silent_coordinator(kStart + 13s));
    REQUIRE(again.size() == 2);
    CHECK(std::holds_alternative<wire::NodeEnded>(std::get<SendToCoordinator>(again[0]).message));
    CHECK(std::get<wire::NodeHeartbeat>(std::get<SendToCoordinator>(again[1]).message).sent_at == 7);
  }
}

TEST_CASE("a node that was asked to end does not follow a new coordinator") {
  Agent agent("a:29400", 10s, kStart);
  agent.heard(begins_as(1), kStart);
  const wire::Cause asked{.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15, .may_restart = true};
  agent.failed(asked);
  CHECK_FALSE(agent.may_outlive_coordinator());
  CHECK(only<EndWorkers>(agent.coordinator_lost("it has closed the connection")).cause.signal == 15);
}

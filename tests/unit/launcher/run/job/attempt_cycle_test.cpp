#include "launcher/run/job/attempt_cycle.h"

#include <csignal>
#include <string>
#include <variant>

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
namespace limits = ddp::limits;
namespace wire = ddp::wire;
using ddp::base::ExitStatus;

namespace {

constexpr TimePoint kNow{};

// Writes the actions as words.
struct Words {
  std::string operator()(const BeginAttempt&) const { return "begin"; }
  std::string operator()(const Supervise& action) const {
    if (std::holds_alternative<Settled>(action.event)) return "supervise: settled";
    if (std::holds_alternative<ExitTimedOut>(action.event)) return "supervise: exit timed out";
    return std::holds_alternative<EndedElsewhere>(action.event) ? "supervise: ended elsewhere" : "supervise";
  }
  std::string operator()(const ExplainWait&) const { return "explain"; }
  std::string operator()(const ReportFailure& action) const {
    return (action.cause.is_urgent ? "urgent: " : "report: ") + action.cause.text;
  }
  std::string operator()(const ReportEnd& action) const { return action.has_run ? "ended" : "never begun"; }
  std::string operator()(const ShowEvent&) const { return "show"; }
  std::string operator()(const AwaitCause&) const { return "await"; }
  std::string operator()(const StopAwaiting&) const { return "over"; }
  std::string operator()(const ShowEnd& action) const { return (action.is_last ? "last: " : "next: ") + action.next; }
  std::string operator()(const Leave&) const { return "leave"; }
  std::string operator()(const LogLine& line) const { return "log: " + line.text; }
};

std::string words(const AttemptCycle::Actions& actions) {
  std::string text;
  for (const CycleAction& action : actions) text += (text.empty() ? "" : ", ") + std::visit(Words(), action);
  return text;
}

struct Node {
  AttemptCycle cycle;

  explicit Node(bool has_other_nodes = true) : cycle("a", has_other_nodes, {SIGINT, SIGTERM}) {}

  std::string event(const Event& event, TimePoint now = kNow) { return words(cycle.happened(event, now)); }
  std::string ends(const wire::Cause& cause) { return words(cycle.happened(EndWorkers{cause})); }
  std::string follows(const std::string& line) { return words(cycle.happened(AttemptFollows{line})); }
  std::string leaves(const wire::Cause& cause = {}) { return words(cycle.happened(LeaveJob{cause})); }
  std::string proceed(bool is_preparing = false, bool is_through = true) {
    return words(cycle.proceed(is_preparing, is_through));
  }
  std::string starts(int node_count = 2) {
    Placement place;
    place.node_count = node_count;
    return words(cycle.happened(StartAttempt{place}));
  }
  Node& runs(int node_count = 2) {
    starts(node_count);
    REQUIRE(proceed() == "begin");
    return *this;
  }
  std::string drains(JobOutcome outcome = {}) {
    cycle.drains();
    cycle.has_ended_with(std::move(outcome));
    return words(cycle.output_was_shown());
  }
};

JobOutcome lost_a_peer() {
  JobOutcome outcome;
  outcome.status = ExitStatus::exited(1);
  outcome.knowledge = wire::Knowledge::secondary;
  outcome.cause = WorkerFailed{{.status = outcome.status}, {}};
  return outcome;
}

const wire::Cause kFailure{.text = "rank 5: exit code 3", .node = "b", .exit_code = 3};

}  // namespace

TEST_CASE("an attempt begins when the coordinator starts it and the workers are prepared") {
  Node node;
  CHECK(node.proceed().empty());
  CHECK(node.starts().empty());
  CHECK(node.proceed(/*is_preparing=*/true).empty());
  CHECK(node.proceed() == "begin");
  CHECK(node.cycle.is_running());
  CHECK(node.proceed().empty());
}

TEST_CASE("an attempt that is ended before it could begin never begins") {
  Node node;
  node.starts();
  CHECK(node.ends(kFailure) == "never begun");
  CHECK(node.proceed().empty());
}

TEST_CASE("AttemptCycle passes signals and hang reports to JobState while an attempt runs") {
  Node node;
  node.runs();
  CHECK(node.event(SignalArrived{SIGINT}) == "supervise");
  CHECK(node.event(HangNews{}) == "supervise");
}

TEST_CASE("AttemptCycle turns the coordinator's cause into EndedElsewhere, Settled or ExitTimedOut for JobState") {
  CHECK(Node().runs().ends(kFailure) == "supervise: ended elsewhere");
  wire::Cause gave_up = kFailure;
  gave_up.gave_up = true;
  CHECK(Node().runs().ends(gave_up) == "explain, supervise: ended elsewhere");
  gave_up.is_urgent = true;
  CHECK(Node().runs().ends(gave_up) == "supervise: ended elsewhere");
  const wire::Cause own{.text = "rank 0: exit code 3", .node = "a", .exit_code = 3};
  CHECK(Node().runs().ends(own) == "supervise: ended elsewhere");
  Node reporter;
  reporter.runs().cycle.has_reported();
  CHECK(reporter.ends(own) == "supervise: settled");
  const wire::Cause timed_out{.text = "rank 1 did not exit", .exit_code = 1, .exit_timed_out = true};
  CHECK(Node().runs(2).ends(timed_out) == "supervise: ended elsewhere");
  CHECK(Node(false).runs(1).ends(timed_out) == "supervise: exit timed out");
}

TEST_CASE("a node reports the end of its attempt and shows it once with the restart that follows") {
  Node node;
  node.runs();
  CHECK(node.drains() == "ended, await");
  CHECK_FALSE(node.cycle.wait_for_cause(/*awaits_records=*/false));
  CHECK(node.cycle.wait_for_cause(/*awaits_records=*/true) == limits::kRecordsLastWait);
  CHECK(node.follows("restarting").empty());
  CHECK(words(node.cycle.attempt_is_over()) == "next: restarting");
  CHECK(words(node.cycle.attempt_is_over()).empty());
  // The end of the first attempt was shown, so a line reports what follows now.
  CHECK(node.follows("restarting once more") == "log: restarting once more");
  CHECK(node.runs().cycle.is_running());
}

TEST_CASE("workers that lost another rank wait for the cause that the coordinator knows") {
  Node node;
  node.runs();
  CHECK(node.drains(lost_a_peer()) == "ended, await");
  CHECK(node.cycle.wait_for_cause(false) == limits::kNamedPeerWait + limits::kSecondaryWait);
  CHECK(node.ends(kFailure) == "show, await");
  CHECK_FALSE(node.cycle.wait_for_cause(false));
  CHECK(describe_failure(node.cycle.outcome()) == "node b: rank 5: exit code 3");
  CHECK(node.ends(kFailure).empty());
  // A job of one node knows all that there is.
  Node alone(false);
  alone.runs(1).drains(lost_a_peer());
  CHECK_FALSE(alone.cycle.wait_for_cause(false));
}

TEST_CASE("a cause that arrives while the output is shown is kept") {
  Node node;
  node.runs();
  node.cycle.drains();
  node.cycle.has_ended_with(lost_a_peer());
  CHECK(node.ends(kFailure) == "show");
  CHECK(words(node.cycle.output_was_shown()) == "ended, await");
  CHECK_FALSE(node.cycle.wait_for_cause(false));
}

TEST_CASE("the node leaves when the job is over and the other nodes know it") {
  Node node;
  node.runs().drains();
  CHECK(node.leaves() == "await");
  CHECK(words(node.cycle.attempt_is_over()) == "next: ");
  CHECK(node.proceed(false, /*is_through=*/false).empty());
  CHECK(node.proceed(false, /*is_through=*/false).empty());
  CHECK(node.event(ConsoleClosed{}).empty());
  CHECK(node.proceed() == "leave");
  CHECK(node.cycle.conclusion().outcome.status.success());
  // The only node of a job shows the last attempt as the last one.
  Node alone(false);
  alone.runs(1).drains();
  alone.leaves();
  CHECK(words(alone.cycle.attempt_is_over()) == "last: ");
}

TEST_CASE("SIGINT ends the wait for other nodes to learn the end of the job") {
  Node node;
  node.leaves();
  CHECK(node.proceed(false, false).empty());
  CHECK(node.event(SignalArrived{SIGINT}) == "leave");
}

TEST_CASE("a request while the output is shown ends the job, unless it has succeeded") {
  for (const int code : {0, 3}) {
    Node node(false);
    node.runs(1).cycle.drains();
    CHECK(node.event(SignalArrived{SIGINT}).empty());
    JobOutcome outcome;
    outcome.status = ExitStatus::exited(code);
    node.cycle.has_ended_with(outcome);
    CHECK(words(node.cycle.output_was_shown()) ==
          (code == 0 ? "ended, await" : "report: terminated by SIGINT, ended, await"));
  }
  // A hang that is found now is shown.
  Node node;
  node.runs().cycle.drains();
  CHECK(node.event(HangNews{}) == "show");
}

TEST_CASE("SIGINT between attempts is reported to the coordinator and a second one makes the node leave at once") {
  Node node;
  CHECK(node.event(SignalArrived{SIGUSR1}) == "show");
  CHECK(node.event(SignalArrived{SIGINT}) == "show, report: terminated by SIGINT");
  CHECK(node.event(ConsoleClosed{}) == "show");
  CHECK(node.event(SignalArrived{SIGINT}) == "show, urgent: terminated by SIGINT");
  CHECK(node.event(SignalArrived{SIGINT}).empty());
  CHECK(node.proceed(false, false) == "leave");
  CHECK(node.cycle.is_in_haste());
  CHECK(node.cycle.conclusion().outcome.status == ExitStatus::killed(SIGINT));
}

TEST_CASE("SIGINT after an attempt is urgent if another one arrived during the attempt") {
  Node node;
  node.runs().cycle.note_request(SignalArrived{SIGINT}, kNow);
  node.drains();
  CHECK(node.event(SignalArrived{SIGINT}, kNow + limits::kSecondRequest) == "show, urgent: terminated by SIGINT");
}

TEST_CASE("a node whose guardian is lost while it waits for a cause leaves at once with exit code 125") {
  Node node;
  node.runs().drains(lost_a_peer());
  CHECK(node.event(GuardianLost{}) == "show, over");
  CHECK(words(node.cycle.attempt_is_over()) == "next: ");
  CHECK(node.proceed(false, false) == "leave");
  CHECK(node.cycle.conclusion().outcome.status == ExitStatus::exited(125));
}

TEST_CASE("workers that cannot be killed are reported as the reason for no other attempt") {
  Node node;
  JobOutcome outcome;
  outcome.unkillable = {{.rank = 1, .pid = 7}};
  CHECK(node.runs().drains(outcome) == "report: rank 1 cannot be killed, ended, await");
}

#include "launcher/run/remote/host_job_state.h"

#include <csignal>

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using ddp::base::ExitStatus;

namespace {

// Drives a job on three hosts, and returns the actions in words: "go", "15>0", "cut 2", "say …", "info …".
class Job {
 public:
  Job() : plan_(plan()), state_(plan_, now_) {}

  static HostPlan plan() {
    HostPlan plan;
    for (const char* name : {"a", "b", "c"})
      plan.starts.push_back({name, {"ssh", "-o", "BatchMode=yes", name}, "/d", {}});
    plan.options.ending_signals = {SIGTERM, SIGINT, SIGHUP};
    plan.options.node_timeout = 20s - 5s - ddp::limits::kUnkillableWait;
    plan.options.grace = 5s;
    return plan;
  }

  std::vector<std::string> ready(std::size_t host) { return words_of(state_.ready(host)); }
  std::vector<std::string> ssh_ended(std::size_t host, const ExitStatus& status) {
    return words_of(state_.ssh_ended(host, status, now_));
  }
  std::vector<std::string> signal(int signal) { return words_of(state_.signal_arrived(signal, now_)); }
  std::vector<std::string> wait(std::chrono::milliseconds time) {
    now_ += time;
    REQUIRE(state_.alarm());
    return words_of(state_.tick(now_));
  }
  void pass(std::chrono::milliseconds time) { now_ += time; }

  Job& run() {
    for (std::size_t host : {0U, 1U, 2U}) ready(host);
    return *this;
  }
  void said_end(std::size_t host, int code) { state_.said_end(host, code); }
  void end_with(std::size_t host, int code) {
    state_.said_end(host, code);
    ssh_ended(host, ExitStatus::exited(code));
  }

  const HostJobState& state() const { return state_; }

 private:
  static std::vector<std::string> words_of(const std::vector<HostAction>& actions) {
    std::vector<std::string> words;
    for (const HostAction& action : actions) words.push_back(std::visit(Words{}, action));
    return words;
  }
  struct Words {
    std::string operator()(const LetBegin&) const { return "go"; }
    std::string operator()(const PassSignal& action) const {
      return std::to_string(action.signal) + ">" + std::to_string(action.host);
    }
    std::string operator()(const EndSsh& action) const { return "cut " + std::to_string(action.host); }
    std::string operator()(const LogLine& line) const {
      return (line.level == LogLevel::error ? "say " : "info ") + line.text;
    }
  };

  HostJobState::TimePoint now_{};
  const HostPlan plan_;
  HostJobState state_;
};

using Said = std::vector<std::string>;

}  // namespace

TEST_CASE("no host starts before all hosts are ready") {
  Job job;
  CHECK(job.ready(1).empty());
  CHECK(job.ready(0).empty());
  CHECK(job.ready(2) == Said{"go"});
  CHECK_FALSE(job.state().alarm());
  for (std::size_t host : {0U, 1U, 2U}) {
    CHECK_FALSE(job.state().finished());
    job.end_with(host, 0);
  }
  CHECK(job.state().finished());
  CHECK(job.state().end() == ExitStatus::exited(0));
}

TEST_CASE("an unreachable host ends the start on all hosts and suggests a remedy") {
  Job job;
  job.ready(0);
  const Said said = job.ssh_ended(1, ExitStatus::exited(255));
  CHECK(said == Said{"say b cannot be reached over ssh; no worker was started on any host. This must work without a "
                     "password: ssh -o "
                     "BatchMode=yes b true",
                     "cut 0", "cut 2"});
  // The other hosts report nothing more, and none begins.
  CHECK(job.ready(2).empty());
  CHECK(job.ssh_ended(0, ExitStatus::killed(SIGTERM)).empty());
  CHECK(job.ssh_ended(2, ExitStatus::killed(SIGTERM)).empty());
  CHECK(job.state().finished());
  CHECK(job.state().end() == ExitStatus::exited(125));
}

TEST_CASE("a missing launcher, a failed start and other errors are distinguished") {
  CHECK(Job().ssh_ended(0, ExitStatus::exited(127)).front().find("a: /d cannot be executed there") !=
        std::string::npos);
  CHECK(Job()
            .ssh_ended(0, ExitStatus::exited(0))
            .front()
            .find("To find the cause, run: ssh -o BatchMode=yes a /d --version") != std::string::npos);
  Job job;
  job.said_end(2, 127);
  CHECK(job.ssh_ended(2, ExitStatus::exited(127)).front().find("c: its launcher could not start (exit code 127)") !=
        std::string::npos);
  job.ssh_ended(0, ExitStatus::killed(SIGTERM));
  job.ssh_ended(1, ExitStatus::killed(SIGTERM));
  CHECK(job.state().end() == ExitStatus::exited(127));
}

TEST_CASE("the hosts that are waited for are reported, and the wait is limited") {
  Job job;
  job.ready(1);
  CHECK(job.wait(10s) == Said{"info waiting for a, c to answer"});
  CHECK(job.wait(589s).empty());
  CHECK(job.wait(1s) ==
        Said{"say a, c did not answer within 10 min. No worker was started", "cut 0", "cut 1", "cut 2"});
}

TEST_CASE("the job's exit code is the first one that a launcher reports, not that of a connection") {
  Job job;
  job.run();
  CHECK(job.ssh_ended(1, ExitStatus::exited(255)) ==
        Said{"say the connection to b is lost (ssh: exit code 255); its launcher terminates its workers on its own"});
  job.end_with(0, 129);
  job.end_with(2, 129);
  CHECK(job.state().end() == ExitStatus::exited(129));
  Job all;
  all.run();
  for (std::size_t host : {0U, 1U, 2U}) all.ssh_ended(host, ExitStatus::exited(255));
  CHECK(all.state().end() == ExitStatus::exited(125));
  Job own;
  own.run();
  for (std::size_t host : {0U, 1U, 2U}) own.end_with(host, 255);
  CHECK(own.state().end() == ExitStatus::exited(255));
}

TEST_CASE("after a failure the other hosts end by themselves, on request, or by disconnection") {
  Job job;
  job.run();
  job.end_with(1, 3);
  CHECK(job.wait(19s).empty());
  CHECK(job.wait(1s) == Said{"15>0", "15>2"});
  job.end_with(0, 143);
  CHECK(job.wait(10s) == Said{"cut 2"});
  job.ssh_ended(2, ExitStatus::killed(SIGTERM));
  CHECK(job.state().end() == ExitStatus::exited(3));
}

TEST_CASE("a host that ends successfully does not wait for the others") {
  Job job;
  job.run();
  job.end_with(0, 0);
  CHECK_FALSE(job.state().alarm());
}

TEST_CASE("the first two signals go to all hosts, and a third one disconnects them") {
  Job job;
  job.run();
  CHECK(job.signal(SIGINT) == Said{"2>0", "2>1", "2>2"});
  job.pass(100ms);
  CHECK(job.signal(SIGINT).empty());  // this counts as the same request
  job.pass(500ms);
  CHECK(job.signal(SIGTERM) == Said{"15>0", "15>1", "15>2"});
  job.pass(600ms);
  CHECK(job.signal(SIGTERM) == Said{"cut 0", "cut 1", "cut 2"});
  for (std::size_t host : {0U, 1U, 2U}) job.ssh_ended(host, ExitStatus::killed(SIGTERM));
  CHECK(job.state().end() == ExitStatus::killed(SIGINT));
}

TEST_CASE("a host that does not respond is disconnected after the grace period") {
  for (const auto& [signal, patience] : {std::pair(SIGTERM, 10s), std::pair(SIGINT, 15s)}) {
    Job job;
    job.run().signal(signal);
    CHECK(job.wait(patience - 1ms).empty());
    CHECK(job.wait(1ms) == Said{"cut 0", "cut 1", "cut 2"});
  }
}

TEST_CASE("the controller dies of the signal that ended the job, and otherwise exits like the job") {
  const auto end_of = [](int signal, int code) {
    Job job;
    job.run().signal(signal);
    for (std::size_t host : {0U, 1U, 2U}) job.end_with(host, code);
    return job.state().end();
  };
  CHECK(end_of(SIGTERM, 143) == ExitStatus::killed(SIGTERM));
  CHECK(end_of(SIGTERM, 7) == ExitStatus::exited(7));
  CHECK(end_of(SIGTERM, 0) == ExitStatus::exited(0));
  CHECK(end_of(SIGPIPE, 143) == ExitStatus::killed(SIGPIPE));
}

TEST_CASE("a signal before the job begins ends the start at once") {
  Job job;
  job.ready(0);
  CHECK(job.signal(SIGTERM) == Said{"cut 0", "cut 1", "cut 2"});
  CHECK(job.ssh_ended(1, ExitStatus::killed(SIGTERM)).empty());
  job.ssh_ended(0, ExitStatus::exited(125));
  job.ssh_ended(2, ExitStatus::killed(SIGTERM));
  CHECK(job.state().end() == ExitStatus::killed(SIGTERM));
}

TEST_CASE("other signals are passed on to a running job") {
  Job job;
  CHECK(job.signal(SIGUSR1).empty());
  job.run().end_with(0, 0);
  CHECK(job.signal(SIGUSR1) == Said{"10>1", "10>2"});
  CHECK_FALSE(job.state().alarm());
}

#include "launcher/supervise/node_job.h"

#include <csignal>
#include <optional>
#include <utility>

#include "base/exit_code.h"
#include "base/signals.h"
#include "launcher/nodes/nodes.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/restart_policy.h"

namespace ddp::launcher {
namespace {

// What the other nodes are told of what happened here.
wire::Cause cause_of(const JobOutcome& outcome) {
  wire::Cause cause;
  cause.text = describe_failure(outcome);
  cause.exit_code = outcome.exit_code;
  cause.signal = outcome.signal.value_or(0);
  cause.is_victim = outcome.culprit && outcome.culprit->error && outcome.culprit->error->is_victim;
  cause.may_restart = is_worth_another(outcome);
  return cause;
}

wire::Cause cause_of_signal(int signal) {
  return {"ended by " + base::signal_name(signal), "", 128 + signal, signal, false, false};
}

class NodeJob {
 public:
  explicit NodeJob(const JobParts& parts) : parts_(parts), attempts_(parts) {}

  base::Result<JobOutcome> run() {
    Nodes::Callbacks callbacks;
    callbacks.start = [this](const NodeAssignment& place) {
      start_ = place;
      parts_.loop.stop();
    };
    callbacks.end = [this](const wire::Cause& cause) {
      is_over_before_ = start_.has_value();
      if (!start_ && parts_.inbox) parts_.inbox(EndedElsewhere{cause});
    };
    callbacks.leave = [this](const wire::Cause& cause) {
      leave_ = cause;
      parts_.loop.stop();
    };
    callbacks.tell = parts_.observer.tell;
    callbacks.inform = parts_.observer.inform;
    callbacks.warn = [this](const std::string& text) { attempts_.warn(text); };
    callbacks.worker_sockets = [this] { return attempts_.worker_sockets(); };
    auto nodes = Nodes::open(parts_.loop, parts_.plan, callbacks);
    if (!nodes) return nodes.error();
    nodes_ = std::move(nodes).value();
    if (const auto warning = nodes_->warning()) parts_.observer.warn(*warning);
    while (wait()) {
      const NodeAssignment place = *std::exchange(start_, std::nullopt);
      // It was over before a worker could be started.
      if (std::exchange(is_over_before_, false)) {
        nodes_->workers_ended();
        continue;
      }
      attempts_.prepare(place.attempt);
      auto outcome =
          attempts_.run(place, last_failure_, [this](const JobOutcome& so_far) { nodes_->failed(cause_of(so_far)); });
      if (!outcome) return outcome;
      last_ = std::move(outcome).value();
      last_failure_ = describe_failure(*last_);
      parts_.observer.attempt_ended(*last_, "");
      nodes_->workers_ended();
    }
    return over();
  }

 private:
  // For the hub's next word; false: this node leaves.
  bool wait() {
    parts_.inbox = [this](const Event& event) {
      parts_.observer.event(event);
      if (std::holds_alternative<GuardianLost>(event))
        return leave_at_once({"the launcher's first process was killed", "", base::kExitOwnFault, 0, false, false});
      if (!attempts_.is_request(event)) return;
      const wire::Cause cause = cause_of_signal(std::get<SignalArrived>(event).signal);
      // Who asks again does not want to wait for the others to hear of it.
      if (std::exchange(asked_, true)) return leave_at_once(cause);
      nodes_->failed(cause);
    };
    if (!start_ && !leave_) parts_.loop.run();
    parts_.inbox = nullptr;
    return start_ && !leave_;
  }

  void leave_at_once(const wire::Cause& cause) {
    leave_ = cause;
    parts_.loop.stop();
  }

  // The same cause and exit code as on all other nodes.
  JobOutcome over() {
    if (!nodes_->is_through()) parts_.loop.run();
    JobOutcome outcome = last_ ? std::move(*last_) : JobOutcome{};
    const wire::Cause& cause = *leave_;
    const std::string told = describe_failure(outcome);
    const bool is_own = cause.node.empty() || cause.node == parts_.plan.host_name;
    outcome.exit_code = cause.exit_code;
    if (cause.exit_code == 0) return outcome;
    if (told.empty()) {
      outcome.elsewhere = cause;
      if (is_own && cause.signal != 0) outcome.signal = cause.signal;
    }
    if (told.empty() || (!is_own && told != describe(cause))) parts_.observer.tell(describe(cause));
    return outcome;
  }

  const JobParts& parts_;
  Attempts attempts_;
  std::unique_ptr<Nodes> nodes_;
  std::optional<NodeAssignment> start_;
  std::optional<wire::Cause> leave_;
  std::optional<JobOutcome> last_;
  std::string last_failure_;
  bool asked_ = false;
  bool is_over_before_ = false;  // the attempt that is to start
};

}  // namespace

base::Result<JobOutcome> run_node_job(const JobParts& parts) {
  return NodeJob(parts).run();
}

}  // namespace ddp::launcher

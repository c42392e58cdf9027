// Attempt: one life of this node's workers, from the first start to the last byte of their output.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/job.h"
#include "launcher/supervise/rank_exchange.h"

namespace ddp::launcher {

// Serves one attempt after another.
class Attempts {
 public:
  // `exchange`: with other nodes. `on_event`: for every event, before it is acted on.
  Attempts(const JobParts& parts, RankExchange& exchange, std::function<void(const Event& event)> on_event)
      : parts_(parts), exchange_(exchange), on_event_(std::move(on_event)) {}

  // Before a store of the attempt may ask or warn.
  void prepare(int number);

  // `last_failure`: of the attempt before; `report`: see SupervisorParts.
  base::Result<JobOutcome> run(const Placement& placement, const std::string& last_failure,
                               const std::function<void(const JobOutcome& so_far)>& report);

  // For the store: the sockets of the workers that run, and what it warns of.
  std::vector<store::RankedSocket> worker_sockets() const;
  void warn(const std::string& text);

  // To end the job, also while the attempt was ending: no other one follows.
  const std::optional<SignalArrived>& request() const { return request_; }
  // Of all attempts so far.
  const std::vector<std::chrono::nanoseconds>& run_times() const { return run_times_; }

  bool is_request(const Event& event) const;

 private:
  void observe(const Event& event);
  void drain_output();

  const JobParts& parts_;
  RankExchange& exchange_;
  const std::function<void(const Event& event)> on_event_;
  Placement placement_;
  std::map<int, pid_t> workers_;  // by local rank
  int warnings_ = 0;
  bool is_ending_ = false;  // then clients leave the store in the middle of anything
  std::optional<SignalArrived> request_;
  std::vector<std::chrono::nanoseconds> run_times_;
};

}  // namespace ddp::launcher

// RasWatch asks NCCL's RAS again and again how far the ranks are, for ranks of which nothing else is known: NCCL loads
// no plug-in of ddplaunch in them. One connection serves the whole job.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/side_thread.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/watchdog/evidence/ras_client.h"
#include "launcher/run/watchdog/evidence/ras_status.h"

namespace ddp::launcher {

// There is one object per attempt. It is used only from the event loop's thread.
class RasWatch {
 public:
  // Takes the environment of a worker ("NAME=value").
  void set_environment(std::span<const std::string> environment);

  // Call this often. It asks if a rank is unknown. Returns whether there is a new answer.
  bool poll(std::chrono::steady_clock::time_point now, const std::vector<RankView>& ranks);

  // Adds what is known to the ranks of the job.
  void add_to(std::vector<RankView>& ranks) const { add_launches(status_, ranks); }

 private:
  using Clock = std::chrono::steady_clock;
  bool take_answer(Clock::time_point now);
  bool forget_old(Clock::time_point now);

  std::optional<RasAddress> address_;
  std::optional<base::SideThread<std::optional<RasStatus>>> question_;
  RasStatus status_;
  Clock::time_point asked_at_{};
  Clock::time_point answered_at_{};
  Clock::time_point next_{};
};

}  // namespace ddp::launcher

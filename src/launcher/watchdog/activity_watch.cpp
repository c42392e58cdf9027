#include "launcher/watchdog/activity_watch.h"

#include <chrono>

#include "launcher/limits.h"
#include "launcher/process/process_activity.h"
#include "net/tcp_bytes.h"

namespace ddp::launcher {

void ActivityWatch::measure(std::span<RankView> ranks, std::chrono::nanoseconds now) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limits::kActivityTime;
  const auto connections = net::read_tcp_bytes();
  const std::size_t first = ranks.empty() ? 0 : next_ % ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankView& rank = ranks[(first + i) % ranks.size()];
    if (rank.has_ended) continue;
    if (Clock::now() >= until) {
      next_ = first + i;
      return;
    }
    const int local_rank = rank.rank - first_rank_;
    const std::vector<pid_t> processes = processes_.processes_of(local_rank);
    if (processes.empty()) continue;
    ActivitySample sample = read_activity(processes, connections, store_port_, until);
    sample.output_bytes = output_bytes_(local_rank);
    sample.handed_on = rank.page.handed_on;
    gpus_.add(local_rank, processes, sample);
    observe_(rank.rank, sample, now);
    ActivityMeter& meter = meters_[local_rank];
    meter.add(sample, now);
    rank.activity = meter.activity();
  }
}

void ActivityWatch::discard_windows() {
  for (auto& [local_rank, meter] : meters_) meter.discard_window();
}

}  // namespace ddp::launcher

#include "launcher/supervise/activity_watch.h"

#include "launcher/process/process_activity.h"
#include "net/tcp_bytes.h"

namespace ddp::launcher {

void ActivityWatch::measure(std::span<RankView> ranks, std::chrono::nanoseconds now) {
  const auto connections = net::read_tcp_bytes();
  for (RankView& rank : ranks) {
    if (rank.has_ended) continue;
    const int local_rank = rank.rank - first_rank_;
    const std::vector<pid_t> processes = processes_.processes_of(local_rank);
    if (processes.empty()) continue;
    ActivitySample sample;
    sample.processes = read_process_counters(processes);
    sample.knows_connections = connections.has_value();
    if (connections) sample.connections = connections_of(processes, *connections, store_port_);
    sample.output_bytes = output_bytes_(local_rank);
    ActivityMeter& meter = meters_[local_rank];
    meter.add(sample, now);
    rank.activity = meter.activity();
  }
}

void ActivityWatch::discard_windows() {
  for (auto& [local_rank, meter] : meters_) meter.discard_window();
}

}  // namespace ddp::launcher

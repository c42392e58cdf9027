#include "launcher/run/ranks/activity_watch.h"

#include <utility>

#include "launcher/limits.h"
#include "launcher/run/process/our_programs.h"
#include "net/tcp_bytes.h"

namespace ddp::launcher {
namespace {

// The reader prints a line per second, unless a call of the driver hangs. An older line is not used.
constexpr std::chrono::seconds kLatest{5};
constexpr std::chrono::seconds kUntilItEnds{30};  // without a call, the reader is stopped after this time

}  // namespace

void GpuWatch::add(int local_rank, std::span<const pid_t> processes, ActivitySample& sample) {
  if (!node_has_gpus_) return;
  read();
  if (is_fresh()) sample.gpu = gpus_of_rank(node_gpus_, processes, visible_[local_rank]);
  sample.is_complete = sample.is_complete && sample.gpu;
}

RankGpuUse GpuWatch::use_of(int local_rank, std::span<const pid_t> processes) {
  if (!node_has_gpus_) return {};
  read();
  return is_fresh() ? gpu_use_of_rank(node_gpus_, processes, visible_[local_rank]) : RankGpuUse();
}

bool GpuWatch::is_fresh() const {
  return read_at_ && Clock::now() - *read_at_ <= kLatest;
}

// Reads the reader's output since the last call. The first call starts the reader.
void GpuWatch::read() {
  if (has_failed_) return;
  idle_ = loop_.at(Clock::now() + kUntilItEnds, [this] {
    run_.reset();
    read_at_.reset();
    text_.clear();
  });
  if (!run_) {
    run_ = std::make_unique<ToolRun>(loop_, our_program("ddp_gpu_reader"), std::vector<std::string>(),
                                     [this](const std::string&) {
                                       has_failed_ = true;
                                       read_at_.reset();
                                       idle_.reset();
                                       run_.reset();
                                     });
    has_failed_ = run_->has_failed();
    return;
  }
  text_ += run_->take_output();
  for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
    auto node_gpus = gpus_from_line(std::string_view(text_).substr(0, end));
    if (!node_gpus) continue;
    node_gpus_ = std::move(*node_gpus);
    read_at_ = Clock::now();
  }
}

void ActivityWatch::measure(std::span<RankView> ranks, std::chrono::nanoseconds now) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limits::kActivityTime;
  const auto connections = net::read_tcp_bytes();
  const std::size_t first = ranks.empty() ? 0 : next_ % ranks.size();
  std::vector<RankView*> measured;
  std::vector<ActivitySample> samples;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankView& rank = ranks[(first + i) % ranks.size()];
    if (rank.has_ended) continue;
    if (Clock::now() >= until) {
      next_ = first + i;
      break;
    }
    const int local_rank = rank.rank - first_rank_;
    const std::vector<pid_t> processes = processes_.processes_of(local_rank);
    if (processes.empty()) continue;
    ActivitySample sample = read_activity(processes, connections, store_port_, until);
    sample.output_bytes = output_bytes_(local_rank);
    sample.handed_on = rank.page.handed_on;
    gpus_.add(local_rank, processes, sample);
    measured.push_back(&rank);
    samples.push_back(std::move(sample));
  }
  find_peers(samples, connections.value_or(std::vector<net::TcpBytes>()));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    RankView& rank = *measured[i];
    observe_(rank.rank, samples[i], now);
    ActivityMeter& meter = meters_[rank.rank - first_rank_];
    meter.add(samples[i], now);
    rank.activity = meter.activity();
  }
}

}  // namespace ddp::launcher

#include "launcher/watchdog/gpu_watch.h"

#include <utility>

#include "launcher/process/our_programs.h"

namespace ddp::launcher {
namespace {

// The reader tells its GPUs once a second. A later line is missing if a call of the driver hangs.
constexpr std::chrono::seconds kLatest{5};
constexpr std::chrono::seconds kUntilItEnds{30};  // if it is not asked for

}  // namespace

void GpuWatch::sees(int local_rank, std::optional<std::string> cuda_visible_devices) {
  visible_[local_rank] = std::move(cuda_visible_devices);
}

void GpuWatch::add(int local_rank, std::span<const pid_t> processes, ActivitySample& sample) {
  if (!node_has_gpus_) return;
  read();
  const bool is_fresh = read_at_ && Clock::now() - *read_at_ <= kLatest;
  if (is_fresh) sample.gpu = gpus_of_rank(node_gpus_, processes, visible_[local_rank]);
  sample.is_complete = sample.is_complete && sample.gpu;
}

// What has come since the last call; starts the reader for the first one.
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

}  // namespace ddp::launcher

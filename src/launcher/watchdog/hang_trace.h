// A hang trace: what the hang detector was shown, sample by sample, as lines of JSON (DDP_HANG_TRACE=FILE). The
// judgement can be repeated from it later, in no time: to find out why a job was terminated or was not, and to test the
// policy.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "launcher/output/log_file.h"
#include "launcher/process/rank_view.h"

namespace ddp::launcher {

class HangTrace {
 public:
  using Failed = std::function<void(const std::string& sentence)>;

  // Appends to the file. An empty path: nothing is written.
  HangTrace(const std::string& path, Failed failed);

  void add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed, std::uint64_t now);
  void nothing_new(std::chrono::nanoseconds elapsed);
  void sample(int rank, const ActivitySample& sample, std::chrono::nanoseconds now);

 private:
  void write_quiet();

  Failed failed_;
  LogFile file_;
  std::chrono::nanoseconds quiet_{0};  // samples without news, which become one line
  int quiet_samples_ = 0;
};

}  // namespace ddp::launcher

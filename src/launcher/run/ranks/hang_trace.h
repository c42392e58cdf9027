// HangTrace writes each sample that the hang detector gets as a line of JSON (DDP_HANG_TRACE=FILE). The judgement can
// be repeated from this file later, without waiting. That shows why a job was terminated or was not, and tests the
// policy.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "launcher/run/output/log_file.h"
#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/process_activity.h"

namespace ddp::launcher {

class HangTrace {
 public:
  using Failed = std::function<void(const std::string& sentence)>;

  // Appends to the file. If the path is empty, nothing is written.
  HangTrace(const std::string& path, Failed failed);

  // Call this for each picture.
  void add(const Picture& picture);
  // Adds why there is a verdict on the last picture, or none.
  void explain(const std::string& explanation);
  void sample(int rank, const ActivitySample& sample, std::chrono::nanoseconds now);

 private:
  void write_quiet();

  Failed failed_;
  LogFile file_;
  std::chrono::nanoseconds quiet_{0};  // duration of samples without news, which become one line
  int quiet_samples_ = 0;
};

}  // namespace ddp::launcher

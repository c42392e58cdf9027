// ProgressLine shows the progress of the training. In a terminal it rewrites one line; otherwise it prints plain lines
// a few seconds apart. It also reports the progress to ddplaunch.
#pragma once

#include <ddp/progress.h>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace charlm {

class ProgressLine {
 public:
  // Prints nothing unless `enabled`. `first` is the step at which this run begins.
  ProgressLine(bool enabled, std::int64_t first, std::int64_t total, std::int64_t tokens_per_step)
      : enabled_(enabled),
        terminal_(::isatty(STDOUT_FILENO) == 1),
        first_(first),
        total_(total),
        tokens_(tokens_per_step) {}

  // Call it after each step, on all ranks. The printed loss is a running mean (a step counts 5 %).
  void update(std::int64_t done, double loss) {
    mean_loss_ = done - first_ <= 1 ? loss : 0.95 * mean_loss_ + 0.05 * loss;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done - first_) / seconds;
    // ddplaunch shows these values in its views and in its report.
    ddp::progress(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total_),
                  {{"loss", mean_loss_}, {"tok/s", rate * static_cast<double>(tokens_)}});
    const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(2000);
    if (!enabled_ || (now - printed_ < interval && done != total_)) return;
    printed_ = now;
    const auto left = static_cast<std::int64_t>(std::llround(static_cast<double>(total_ - done) / rate));
    std::printf("%sstep %lld/%lld  loss %.3f  %s tok/s  eta %s%s", terminal_ ? "\r" : "", static_cast<long long>(done),
                static_cast<long long>(total_), mean_loss_, thousands(rate * static_cast<double>(tokens_)).c_str(),
                duration(left).c_str(), terminal_ ? "\033[K" : "\n");
    if (terminal_ && done == total_) std::printf("\n");
    std::fflush(stdout);
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  static std::string thousands(double value) {
    char text[32];
    std::snprintf(text, sizeof text, value < 1000 ? "%.0f" : "%.1fk", value < 1000 ? value : value / 1000);
    return text;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string duration(std::int64_t seconds) {
    return seconds < 60 ? std::to_string(seconds) + " s"
                        : std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  }

  const bool enabled_;
  const bool terminal_;
  const std::int64_t first_;
  const std::int64_t total_;
  const std::int64_t tokens_;
  double mean_loss_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point printed_ = Clock::now();
};

}  // namespace charlm

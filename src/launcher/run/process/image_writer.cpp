#include "launcher/run/process/image_writer.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "launcher/limits.h"
#include "launcher/run/process/process_texts.h"

namespace ddp::launcher {

void ImageWriter::write_newest(const StateMemory& states, const Placement& placement, Clock::time_point now) {
  if (directory_.empty()) return;
  learn(states);
  if (writing_) return check_progress(now);
  auto newest = newest_step_of(states.kept(), states.areas());
  if (newest && Step(newest->attempt, newest->step) > step_) {
    begin(states, placement, std::move(*newest));
    moved_at_ = now;
    has_warned_of_hang_ = false;
  }
}

// A file system that hangs must not stop the images without a word.
void ImageWriter::check_progress(Clock::time_point now) {
  if (const std::uint64_t pieces = progress_->pieces; std::exchange(pieces_, pieces) != pieces) {
    moved_at_ = now;
    has_warned_of_hang_ = false;
  }
  if (now - moved_at_ < limits::kStateTime || std::exchange(has_warned_of_hang_, true)) return;
  log_({LogLevel::warning, LogSource::job, image_hangs_text(step_.second, directory_)});
}

void ImageWriter::begin(const StateMemory& states, const Placement& placement, KeptStep step) {
  step_ = {step.attempt, step.step};
  const ImageTask task{directory_, placement.job_began, states.descriptor(), std::move(step)};
  writing_.emplace([task, progress = progress_] { return write_image(task, *progress); });
}

void ImageWriter::learn(const StateMemory& states) {
  if (!writing_) return;
  const auto written = writing_->result();
  if (!written) return;
  writing_.reset();
  if (!written->failure.empty()) {
    if (std::exchange(warned_of_, written->failure) != written->failure) warn_of_failure(written->failure);
    return;
  }
  states.say_image_time(written->time);
  log_({LogLevel::debug, LogSource::job, image_written_text(step_.second, directory_, *written)});
  if (written->is_complete) complete_ = step_;
  if (written->newest) newest_ = written->newest->step;
  // At the end, parts of several steps are written, of which most are not complete.
  if (progress_->is_urgent) return;
  in_vain_ = written->newest || written->is_overtaken ? 0 : in_vain_ + 1;
  if (in_vain_ == limits::kImagesInVain) {
    log_({LogLevel::warning, LogSource::job, never_complete_text(directory_)});
  }
}

void ImageWriter::warn_of_failure(const std::string& reason) const {
  log_({LogLevel::warning, LogSource::job, image_failed_text(step_.second, directory_, reason)});
}

void ImageWriter::finish(const StateMemory& states, const Placement& placement,
                         const std::function<bool()>& interrupted) {
  if (directory_.empty()) return;
  progress_->is_urgent = true;
  const auto until = Clock::now() + limits::kStateTime;
  const auto is_over = [&] {
    const bool is_written = wait(until, interrupted);
    learn(states);
    if (is_written) return false;
    warn_of_failure(kNoMoreWaitText);
    return true;
  };
  if (is_over()) return;
  // The newest one that all nodes have counts, and no launcher knows which one that is.
  for (KeptStep& step : last_steps_of(states.kept(), states.areas())) {
    if (Step(step.attempt, step.step) <= complete_) break;
    begin(states, placement, std::move(step));
    if (is_over()) return;
  }
  if (newest_ < 0) return;
  log_({LogLevel::note, LogSource::job, last_image_text(newest_, directory_)});
}

// Returns whether nothing is being written.
bool ImageWriter::wait(Clock::time_point until, const std::function<bool()>& interrupted) const {
  const auto word_at = Clock::now() + limits::kImageWord;
  bool has_said = false;
  while (writing_) {
    pollfd ready{writing_->ready(), POLLIN, 0};
    const int slice = static_cast<int>(std::chrono::milliseconds(limits::kImagePoll).count());
    if (::poll(&ready, 1, slice) > 0) return true;
    if (interrupted() || Clock::now() >= until) return false;
    if (!has_said && Clock::now() >= word_at) {
      has_said = true;
      log_({LogLevel::note, LogSource::job, writing_image_text(step_.second, directory_)});
    }
  }
  return true;
}

}  // namespace ddp::launcher

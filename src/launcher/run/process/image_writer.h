// ImageWriter writes to --image-dir what the programs of this node keep in memory, one step at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/side_thread.h"
#include "launcher/run/process/image_directory.h"
#include "launcher/run/process/state_memory.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

// It belongs to the loop's thread.
class ImageWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // Without a directory, nothing is written.
  ImageWriter(std::string directory, LogWriter log) : directory_(std::move(directory)), log_(std::move(log)) {}

  // Begins to write the newest complete step in the background, unless that is done, or another one is being written.
  // Warns once if the directory takes nothing of an image for limits::kStateTime.
  void write_newest(const StateMemory& states, const Placement& placement, Clock::time_point now = Clock::now());
  // Writes it when no program runs any more, and waits for that, for limits::kStateTime at most. It also ends when
  // `interrupted` returns true, which is called again and again.
  void finish(const StateMemory& states, const Placement& placement, const std::function<bool()>& interrupted);

 private:
  using Step = std::pair<int, std::int64_t>;  // attempt and step

  void begin(const StateMemory& states, const Placement& placement, KeptStep step);
  void learn(const StateMemory& states);
  void check_progress(Clock::time_point now);
  void warn_of_failure(const std::string& reason) const;
  bool wait(Clock::time_point until, const std::function<bool()>& interrupted) const;

  const std::string directory_;
  const LogWriter log_;
  std::shared_ptr<ImageProgress> progress_ = std::make_shared<ImageProgress>();
  std::optional<base::SideThread<WrittenImage>> writing_;
  std::uint64_t pieces_ = 0;         // of `progress_`, when it was checked last
  Clock::time_point moved_at_;       // when that number changed, or the image began
  bool has_warned_of_hang_ = false;  // since then
  Step step_{-1, -1};                // that is written, or was
  Step complete_{-1, -1};            // of the last image that has become complete here
  std::int64_t newest_ = -1;         // step of this job's newest image that is complete, as far as this launcher knows
  int in_vain_ = 0;                  // images that this node has written while none became complete
  std::string warned_of_;
};

}  // namespace ddp::launcher

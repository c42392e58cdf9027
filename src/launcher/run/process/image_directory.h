// These functions write what the programs of a node keep in memory to --image-dir, and find what is there
// (docs/development/decisions/0080-images-go-to-disk.md). File systems may hang, so call them on a side thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/side_thread.h"
#include "launcher/run/process/image_directory.h"
#include "launcher/run/process/state_memory.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/placement.h"
#include "wire/image_files.h"
#include "wire/kept_state.h"

namespace ddp::launcher {

// What the memory of a node has of a step.
struct KeptStep {
  int attempt = 0;
  std::int64_t step = 0;
  int world = 1;
  std::vector<wire::KeptState> own;    // one per rank
  std::vector<wire::KeptState> whole;  // one per key
};

// Returns the newest step that each of the node's workers has finished, if the whole state of each is kept. Else
// returns std::nullopt.
std::optional<KeptStep> newest_step_of(std::span<const wire::KeptState> kept, int workers);
// Returns the steps of which each of the node's workers has something of its own, the newest first. A lost rank need
// not have finished them, and other nodes may have their whole states.
std::vector<KeptStep> last_steps_of(std::span<const wire::KeptState> kept, int workers);

// Returns the images in the directory. It may be missing.
std::vector<wire::KeptImage> images_in(const std::string& directory);

// The same, but fails if the directory is there and cannot be read.
base::Result<std::vector<wire::KeptImage>> list_images(const std::string& directory);

struct ImageTask {
  std::string directory;
  std::int64_t job_began = 0;  // Unix time, ms
  int descriptor = -1;         // of the state memory
  KeptStep step;
};
struct WrittenImage {
  std::string failure;                    // empty if nothing has failed
  bool is_overtaken = false;              // the programs have kept something newer meanwhile
  std::optional<wire::KeptImage> newest;  // of this job, of those that are complete
  bool is_complete = false;               // all nodes have written their parts
  std::chrono::milliseconds time{0};      // that it has taken, or would have
};

// Is shared with the thread that writes.
struct ImageProgress {
  std::atomic<bool> is_urgent = false;    // while it is false, half of the time is left to others that use the disk
  std::atomic<std::uint64_t> pieces = 0;  // that were written
};

// Writes this node's part of an image. Who writes the last part names the image, and removes older ones.
WrittenImage write_image(const ImageTask& task, ImageProgress& progress);

// ImageWriter writes to --image-dir what the programs of this node keep in memory, one step at a time. It belongs to
// the loop's thread.
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

// These functions write what the programs of a node keep in memory to --image-dir, and find what is there
// (docs/development/decisions/0080-images-go-to-disk.md). File systems may hang, so call them on a side thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
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

}  // namespace ddp::launcher

// These functions name and read the files of an image: the state of all ranks after a step, on disk.
// docs/development/protocol.md, section 11, describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/state_memory_layout.h"

namespace ddp::wire {

struct KeptImage {
  std::int64_t job_began = 0;  // Unix time, ms
  int attempt = 0;
  std::int64_t step = 0;
  int world = 1;
  bool has_one_key = false;  // all ranks have the same whole state

  friend bool operator==(const KeptImage&, const KeptImage&) = default;
  // The newest one is that of the newest job, and of its newest attempt.
  friend auto operator<=>(const KeptImage&, const KeptImage&) = default;
};

// Returns the name of the image's directory.
std::string name_of(const KeptImage& image);
// Returns std::nullopt if it is the name of something else.
std::optional<KeptImage> image_named(std::string_view name);

// An image has one file per rank, for what the rank has of its own, and one per key, for the whole state. The data of a
// file begin after its entry.
inline constexpr std::uint64_t kImageDataAt = kStateEntryBytes;
std::string own_file_of(int rank);
std::string whole_file_of(std::uint64_t key);

// Returns the entry of an open file if it is correct and the file has all of its data.
std::optional<StateEntry> image_entry(int descriptor);

}  // namespace ddp::wire

// The checkpoints of a training lie in one directory, which one job at a time may lock. They have one directory per
// step, which is written atomically. All this happens on one rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace ddp::internal {

// Returns a name such as "step-000000001200".
std::string step_name(std::int64_t step);
// Returns the step of such a name, or std::nullopt if the name is another one.
std::optional<std::int64_t> parse_step_name(std::string_view name);
// Returns the directory in which a step is written, such as ".writing-step-000000001200".
std::string staging_name(std::int64_t step);

// The following functions throw unavailable, with the system's reason.

// Creates a directory unless it exists.
void make_directory(const std::string& path);
// Returns the steps in descending order.
std::vector<std::int64_t> list_steps(const std::string& directory);
std::uint64_t file_bytes(const std::string& path);
// Writes and flushes a small file.
void write_text_file(const std::string& path, std::string_view text);
// Throws corrupt if the path is not a regular file or has more than `limit` bytes.
std::string read_text_file(const std::string& path, std::size_t limit);

// Removes everything from the staged step that is not in `names`, because an earlier run may have left it. Then flushes
// the step and gives it its final name. If a step has that name, it is replaced atomically where the file system can
// exchange names.
void commit_step(const std::string& directory, std::int64_t step, const std::set<std::string>& names);

// Removes the rest of a failed save, as far as that is possible. Does not throw.
void discard_staged(const std::string& directory, std::int64_t step) noexcept;

// Removes a step. A partly removed step never exists under its name.
void remove_step(const std::string& directory, std::int64_t step);
// Removes the rest of steps that interrupted runs were writing or removing.
void remove_leftovers(const std::string& directory);

// Keeps two jobs from saving checkpoints into one directory. Holds a lock of the file `.lock` in the directory. The
// kernel ends the lock with the process, so a job that died leaves none behind, although the file stays.
class DirectoryLock {
 public:
  // Waits up to `patience` while another process or another DirectoryLock has the lock. Then it throws unavailable,
  // naming the owner. On a file system without locks the object locks nothing, and prints a note.
  DirectoryLock(const std::string& directory, std::chrono::milliseconds patience);
  // Removes the file.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  const std::string path_;
  base::UniqueFd fd_;
};

}  // namespace ddp::internal

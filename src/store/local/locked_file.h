// LockedFile is a file that several processes share, on one node or on several (NFS), and its lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace ddp::store {

enum class FileLock { shared, exclusive };

// An object is one user of the file. The lock does not exclude the user's own threads from each other. Errors are
// ddp::Error and name the file: `unavailable`, or `timeout` for a lock that others hold too long.
class LockedFile {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Opens the file, or creates it with mode 0600.
  explicit LockedFile(std::string path);

  const std::string& path() const { return path_; }

  // Holds the lock while it lives.
  class Guard {
   public:
    Guard(LockedFile& file, FileLock kind, Deadline until) : file_(file) { file_.lock(kind, until); }
    ~Guard() { file_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    LockedFile& file_;
  };

  // Call these functions under a lock, which also makes their results current on NFS.
  std::uint64_t size() const;
  // Returns whether the path still names this file.
  bool is_in_place() const;
  // Reads up to `count` bytes from `offset`, and fewer only at the end of the file.
  std::string read(std::uint64_t offset, std::size_t count) const;
  // Replaces all that follows `offset` by `bytes`. If that fails (a full disk), the file ends at `offset`.
  void write_end(std::uint64_t offset, const std::string& bytes);
  void remove();

 private:
  void lock(FileLock kind, Deadline until);
  void unlock();
  [[noreturn]] void fail(const std::string& what, int error) const;

  std::string path_;
  base::UniqueFd fd_;
  bool on_nfs_ = false;
  Deadline unlocked_{};
};

}  // namespace ddp::store

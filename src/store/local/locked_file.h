// LockedFile: a file that several processes share, on one machine or on several (NFS), and its lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace ddp::store {

enum class FileLock { shared, exclusive };

// One user of the file: the lock is not for its threads. Errors are ddp::Error and name the file: `unavailable`, or
// `timeout` for a lock that others do not give away.
class LockedFile {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Opens the file, or makes it for this user alone (mode 0600).
  explicit LockedFile(std::string path);

  const std::string& path() const { return path_; }

  // Held while it lives.
  class Guard {
   public:
    Guard(LockedFile& file, FileLock kind, Deadline until) : file_(file) { file_.lock(kind, until); }
    ~Guard() { file_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    LockedFile& file_;
  };

  // Under a lock, which also makes them true on NFS:
  std::uint64_t size() const;
  // Whether this is (still) the file at the path.
  bool is_in_place() const;
  // Up to `count` bytes from `offset`; fewer only at the end of the file.
  std::string read(std::uint64_t offset, std::size_t count) const;
  // Makes `bytes` all that follows `offset`. If that fails (a full disk), nothing follows it.
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

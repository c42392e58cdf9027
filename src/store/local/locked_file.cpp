#include "store/local/locked_file.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/uninterrupted.h"
#include "store/limits.h"

namespace ddp::store {

LockedFile::LockedFile(std::string path)
    : path_(std::move(path)),
      fd_(base::uninterrupted([this] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); })) {
  if (!fd_) fail("open", errno);
  struct statfs system {};
  on_nfs_ = ::fstatfs(fd_.get(), &system) == 0 && system.f_type == NFS_SUPER_MAGIC;
}

// Polls, because a blocking flock() could not time out when the holder of the lock is stopped. The kernel wakes no
// waiter, so a user that just released the lock pauses briefly. Otherwise the other users would hardly ever find it
// free.
void LockedFile::lock(FileLock kind, Deadline until) {
  std::this_thread::sleep_until(unlocked_ + limits::kFileCourtesy);
  std::chrono::microseconds pause = limits::kFileFirstPause;
  while (::flock(fd_.get(), (kind == FileLock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) fail("lock", errno);
    if (std::chrono::steady_clock::now() >= until) {
      throw Error(ErrorKind::timeout, "cannot lock the store file '" + path_ +
                                          "' in time. Check whether a process that uses it is stopped.");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, limits::kFileLockPause);
  }
}

void LockedFile::unlock() {
  base::uninterrupted([this] { return ::flock(fd_.get(), LOCK_UN); });
  unlocked_ = std::chrono::steady_clock::now();
}

std::uint64_t LockedFile::size() const {
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0) fail("inspect", errno);
  return static_cast<std::uint64_t>(facts.st_size);
}

bool LockedFile::is_in_place() const {
  struct stat ours {};
  struct stat there {};
  if (::fstat(fd_.get(), &ours) != 0 || ::stat(path_.c_str(), &there) != 0) return false;
  return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

std::string LockedFile::read(std::uint64_t offset, std::size_t count) const {
  std::string bytes(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const ssize_t got = ::pread(fd_.get(), bytes.data() + filled, count - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

void LockedFile::write_end(std::uint64_t offset, const std::string& bytes) {
  // Any bytes there are a partial record whose writer was killed.
  const auto cut = [&] {
    return base::uninterrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(offset)); });
  };
  if (size() > offset && cut() != 0) fail("shorten", errno);
  std::size_t written = 0;
  int error = 0;
  while (written < bytes.size() && error == 0) {
    const ssize_t step =
        ::pwrite(fd_.get(), bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
    if (step > 0) {
      written += static_cast<std::size_t>(step);
    } else if (step == 0 || errno != EINTR) {
      error = step == 0 ? ENOSPC : errno;
    }
  }
  // Only then does NFS report that the server's disk is full.
  if (error == 0 && on_nfs_ && base::uninterrupted([&] { return ::fdatasync(fd_.get()); }) != 0) error = errno;
  if (error == 0) return;
  cut();
  fail("write to", error);
}

void LockedFile::remove() {
  ::unlink(path_.c_str());
}

void LockedFile::fail(const std::string& what, int error) const {
  throw Error(ErrorKind::unavailable, "cannot " + what + " the store file '" + path_ + "': " + std::strerror(error) +
                                          ". All ranks must be able to write and to lock it.");
}

}  // namespace ddp::store

#include "runtime/checkpoint/directory_lock.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/host_name.h"
#include "base/printable.h"
#include "base/uninterrupted.h"
#include "runtime/checkpoint/checkpoint_file.h"

namespace ddp::internal {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);

std::string owner_in(int fd) {
  std::array<char, 200> text{};
  const ssize_t got = base::uninterrupted([&] { return ::pread(fd, text.data(), text.size(), 0); });
  return got > 0 ? base::printable(std::string(text.data(), static_cast<std::size_t>(got))) : "an unknown process";
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory, std::chrono::milliseconds patience)
    : path_(directory + "/.lock") {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    fd_.reset(base::uninterrupted(
        [this] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); }));
    if (!fd_) throw Error(ErrorKind::unavailable, "cannot open " + path_ + ": " + std::strerror(errno));
    const bool is_locked = base::uninterrupted([this] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) == 0;
    // Between open and flock, the owner may have removed the file. Then this process has locked a file without a name.
    if (is_locked && is_file_at(path_, fd_.get())) break;
    if (!is_locked && errno != EWOULDBLOCK) {
      std::fprintf(stderr, "ddp: note: cannot lock %s (%s), so a second job that saves there is not noticed\n",
                   directory.c_str(), std::strerror(errno));
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::unavailable,
                  "another job saves checkpoints into " + directory + " (" + owner_in(fd_.get()) +
                      "). Give each job a directory of its own. If that process has ended, or its node has failed, "
                      "remove " +
                      path_ + ".");
    }
    std::this_thread::sleep_for(kLook);
  }
  const std::string owner = "pid " + std::to_string(::getpid()) + " on " + base::host_name();
  // The text is only for messages.
  if (::ftruncate(fd_.get(), 0) != 0 || ::pwrite(fd_.get(), owner.data(), owner.size(), 0) < 0) return;
}

DirectoryLock::~DirectoryLock() {
  if (is_file_at(path_, fd_.get())) ::unlink(path_.c_str());
}

}  // namespace ddp::internal

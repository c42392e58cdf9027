#include "launcher/start/log/file_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/uninterrupted.h"

namespace ddp::launcher {

namespace {

bool can_write_within(int fd, std::chrono::milliseconds limit) {
  return base::poll_until(fd, POLLOUT, std::chrono::steady_clock::now() + limit) > 0;
}

// Returns the reason in errno, in words for a user who writes a file.
std::string reason() {
  if (errno == ENXIO) return "no process reads it. Start its reader first";
  if (errno == EAGAIN) return "its reader is too slow";
  return std::strerror(errno);
}

}  // namespace

bool write_file(const std::string& path, std::string_view text) {
  const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file && write_all(file.get(), text, std::chrono::milliseconds(0));
}

bool write_all(int fd, std::string_view text, std::chrono::milliseconds patience) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && patience.count() > 0) {
      if (can_write_within(fd, patience)) continue;
      errno = EAGAIN;
    }
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

base::Failure write_failure(const std::string& what) {
  return {"cannot write " + what + ": " + reason() + "."};
}

base::UniqueFd own_output(const struct stat& status) {
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    struct stat own {};
    const bool same =
        S_ISREG(status.st_mode) && ::fstat(fd, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino;
    if (same) return base::UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  }
  return {};
}

}  // namespace ddp::launcher

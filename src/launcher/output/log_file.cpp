#include "launcher/output/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddp::launcher {

base::Result<base::UniqueFd> open_log_file(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  if (!fd) {
    return base::Failure{"cannot write to the log file " + path + ": " + std::strerror(errno) +
                         ". Use another --log-dir."};
  }
  // A worker that gets this descriptor expects it to block.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return fd;
}

std::string last_bytes_of_file(const std::string& path, std::size_t bytes, bool& cut) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  const off_t size = fd ? ::lseek(fd.get(), 0, SEEK_END) : -1;
  if (size <= 0) return "";
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(bytes));
  cut = begin > 0;
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

void LogFile::write(std::string_view bytes, const Failed& failed) {
  while (fd_ && !bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      const std::string reason = written == 0 ? "it takes nothing" : std::strerror(errno);
      fd_.reset();
      if (failed) failed("cannot write to the log file " + path_ + ": " + reason + ". It ends here; the job goes on.");
    }
  }
}

}  // namespace ddp::launcher

#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ddp::launcher {
namespace {

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

base::Failure failure(const std::string& path) {
  return base::Failure{"cannot write " + path + ": " + std::strerror(errno)};
}

}  // namespace

base::Result<EventLog> EventLog::open(const std::string& path, std::function<void(const std::string&)> warn) {
  EventLog log;
  if (path.empty()) return log;
  log.path_ = path;
  log.warn_ = std::move(warn);
  // Non-blocking: a FIFO that nobody reads must not hold the job.
  log.file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!log.file_) return base::Failure{"cannot write --event-log=" + path + ": " + std::strerror(errno) + "."};
  return log;
}

void EventLog::write(const std::string& line) {
  if (!file_ || line.empty() || write_all(file_.get(), line + "\n")) return;
  warn_("cannot write to the event log " + path_ + ": " + std::strerror(errno) + ". The job goes on without it.");
  file_.reset();
}

std::optional<base::Failure> write_report(const std::string& path, const std::string& text) {
  struct stat status {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  const std::string target = special ? path : path + ".new";
  const base::UniqueFd file(
      ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | (special ? 0 : O_CREAT | O_TRUNC), 0666));
  if (!file || !write_all(file.get(), text)) {
    const base::Failure reason = failure(path);
    if (!special) ::unlink(target.c_str());
    return reason;
  }
  if (!special && std::rename(target.c_str(), path.c_str()) != 0) return failure(path);
  return std::nullopt;
}

}  // namespace ddp::launcher

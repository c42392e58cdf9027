#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "base/hash.h"
#include "launcher/limits.h"

namespace ddp::launcher {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kMode = 0666;  // less the umask

bool can_write_within(int fd, std::chrono::milliseconds limit) {
  pollfd poll{fd, POLLOUT, 0};
  return ::poll(&poll, 1, static_cast<int>(limit.count())) > 0;
}

// `patience`: for a reader that takes nothing.
bool write_all(int fd, const std::string& text, std::chrono::milliseconds patience) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && patience.count() > 0) {
      if (can_write_within(fd, patience)) continue;
      errno = EAGAIN;
    }
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

// The reason in errno, in the words of somebody who writes a file.
std::string reason() {
  if (errno == ENXIO) return "nobody reads it. Start its reader first";
  if (errno == EAGAIN) return "its reader is too slow";
  return std::strerror(errno);
}

base::Failure failure(const std::string& what) {
  return {"cannot write " + what + ": " + reason() + "."};
}

// An ordinary file that is our standard output or error (/dev/stderr, or by its own name) cannot be replaced, and must
// be written through the very descriptor: what is said there later would overwrite it.
base::UniqueFd own_output(const struct stat& status) {
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    struct stat own {};
    const bool same =
        S_ISREG(status.st_mode) && ::fstat(fd, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino;
    if (same) return base::UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  }
  return {};
}

// Where a report is to go.
struct Target {
  base::UniqueFd own;  // one of our outputs
  bool exists = false;
  bool is_loop = false;  // of symbolic links, which stay
  struct stat status {};
  std::string path;  // without symbolic links

  explicit Target(const std::string& name) : path(base::behind_links(name)) {
    exists = ::stat(path.c_str(), &status) == 0;
    is_loop = !exists && errno == ELOOP;
    if (exists) own = own_output(status);
  }
  bool is_replaced() const { return !own && !is_loop && (!exists || S_ISREG(status.st_mode)); }
};

// A file that becomes the report, or is removed.
class Draft {
 public:
  explicit Draft(const Target& target)
      : target_(target),
        name_((fs::path(target.path).parent_path() / (".ddplaunch-" + base::hex64(std::random_device()()))).string()),
        file_(::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode)),
        exists_(static_cast<bool>(file_)) {}
  ~Draft() {
    if (exists_) ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  bool exists() const { return exists_; }

  // Some file systems tell only here that the disk is full.
  bool write_and_close(const std::string& text) {
    if (target_.exists) ::fchmod(file_.get(), target_.status.st_mode & 07777);
    return write_all(file_.get(), text, {}) && ::close(file_.release()) == 0;
  }

  bool replace() {
    exists_ = std::rename(name_.c_str(), target_.path.c_str()) != 0;
    return !exists_;
  }

 private:
  const Target& target_;
  const std::string name_;
  base::UniqueFd file_;
  bool exists_;
};

}  // namespace

base::Result<EventLog> EventLog::open(const std::string& path, std::function<void(const std::string&)> warn) {
  EventLog log;
  if (path.empty()) return log;
  log.path_ = path;
  log.warn_ = std::move(warn);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) log.file_ = own_output(status);
  // Non-blocking: a FIFO that nobody reads must not hold the job.
  if (!log.file_) {
    log.file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, kMode));
  }
  if (!log.file_) return failure("--event-log=" + path);
  return log;
}

std::optional<base::Failure> EventLog::begin(const std::string& line) {
  if (!file_ || write_all(file_.get(), line + "\n", limits::kConsoleWait)) return std::nullopt;
  return failure("--event-log=" + path_);
}

void EventLog::write(const std::string& line) {
  if (!file_ || line.empty() || write_all(file_.get(), line + "\n", limits::kConsoleWait)) return;
  warn_(failure("--event-log=" + path_).message + " The job goes on without it.");
  file_.reset();
}

bool EventLog::is_same_file(const std::string& path) const {
  struct stat ours {};
  struct stat other {};
  return file_ && ::fstat(file_.get(), &ours) == 0 && S_ISREG(ours.st_mode) && !own_output(ours) &&
         ::stat(path.c_str(), &other) == 0 && ours.st_dev == other.st_dev && ours.st_ino == other.st_ino;
}

std::optional<base::Failure> write_report(const std::string& path, const std::string& text, const std::string& what) {
  Target target(path);
  if (target.is_replaced()) {
    Draft draft(target);
    const bool done = draft.exists() && draft.write_and_close(text) && draft.replace();
    return done ? std::nullopt : std::optional(failure(what));
  }
  if (!target.own) target.own.reset(::open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (target.own && write_all(target.own.get(), text, limits::kConsoleStall)) return std::nullopt;
  return failure(what);
}

std::optional<base::Failure> check_report(const std::string& path, const std::string& what) {
  const Target target(path);
  if (target.own) return std::nullopt;
  if (target.is_replaced()) return Draft(target).exists() ? std::nullopt : std::optional(failure(what));
  // Not opened: that would be the end of the file for a FIFO's reader.
  if (S_ISDIR(target.status.st_mode)) {
    errno = EISDIR;
    return failure(what);
  }
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0 ? std::nullopt : std::optional(failure(what));
}

}  // namespace ddp::launcher

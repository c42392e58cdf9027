#include "launcher/start/log/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/uninterrupted.h"
#include "launcher/limits.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher {

base::Result<LineFile> LineFile::open(const std::string& option, const std::string& path,
                                      std::function<void(const std::string&)> warn) {
  LineFile file;
  if (path.empty()) return file;
  file.name_ = option + "=" + path;
  file.warn_ = std::move(warn);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) file.file_ = own_output(status);
  // The file is opened non-blocking: a FIFO without a reader must not block the job.
  if (!file.file_) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    file.file_.reset(base::uninterrupted([&] { return ::open(path.c_str(), kFlags, kFileMode); }));
  }
  if (!file.file_) return write_failure(file.name_);
  return file;
}

std::optional<base::Failure> LineFile::begin(const std::string& line) {
  if (!file_ || write_all(file_.get(), line + "\n", limits::kConsoleWait)) return std::nullopt;
  return write_failure(name_);
}

void LineFile::write(const std::string& line) {
  if (!file_ || line.empty() || write_all(file_.get(), line + "\n", limits::kConsoleWait)) return;
  const std::string why = write_failure(name_).message + " The job continues without it.";
  file_.reset();  // the warning may be meant for this file, too
  warn_(why);
}

}  // namespace ddp::launcher

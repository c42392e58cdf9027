// LogFile: a file of workers' output. It fails once, and is then left alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// For appending; made if it is not there. A FIFO without a reader is a failure, not a wait.
base::Result<base::UniqueFd> open_log_file(const std::string& path);

// At most the last `bytes` of a file, nothing if it cannot be read; `cut`: there were more.
std::string last_bytes_of_file(const std::string& path, std::size_t bytes, bool& cut);

class LogFile {
 public:
  // `failed` gets a sentence, once.
  using Failed = std::function<void(const std::string&)>;

  LogFile() = default;
  LogFile(std::string path, base::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  explicit operator bool() const { return static_cast<bool>(fd_); }
  const std::string& path() const { return path_; }
  // All bytes, as they are; nothing after a failure.
  void write(std::string_view bytes, const Failed& failed);

 private:
  std::string path_;
  base::UniqueFd fd_;
};

}  // namespace ddp::launcher

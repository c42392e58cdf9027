// Helper runs a program that the launcher needs for itself, such as ssh or a tool that reads stacks
// (docs/development/decisions/0034-boost-process-owns-children.md).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_status.h"
#include "base/result.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct HelperOptions {
  std::vector<std::string> command;  // argv; the program is looked up in PATH
  // An interactive helper leads a new session, which the terminal's signals do not reach. It has pipes for all its
  // streams, and gets SIGTERM when the launcher dies. Any other helper is in the launcher's session, has a pipe for its
  // standard output alone, and is killed when the launcher dies.
  bool is_interactive = false;
  int input = -1;  // standard input of a helper that is not interactive; -1 means nothing to read
  std::vector<std::string> environment = {};  // "NAME=value" lines; empty for the launcher's own
};

struct HelperCallbacks {
  // `stream` is 0 for its standard output and 1 for its standard error.
  std::function<void(std::size_t stream, std::string_view bytes)> read;
  // If it returns false, the output stays in the pipe until resume(). Without this callback, all output is read.
  std::function<bool(std::size_t stream)> may_read;
  // Called once, when the helper has ended and its output has been read. May destroy the helper.
  std::function<void(const base::ExitStatus& status)> ended;
};

// Used only from the event loop's thread. Must not outlive the loop, which reaps the process.
class Helper {
 public:
  // The failure is a sentence without a full stop.
  static base::Result<std::unique_ptr<Helper>> start(net::EventLoop& loop, const HelperOptions& options,
                                                     HelperCallbacks callbacks);
  // Kills the process if it still runs. No callback is called after that.
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // Returns its pid, which may belong to another process once it has ended.
  pid_t pid() const;
  // Queues a line, which is written as an interactive helper reads.
  void write_line(const std::string& line);
  // Sends SIGTERM, and SIGKILL after limits::kHelperEnd. The signals of an interactive helper go to its process group.
  void end();
  // Call this when the result of may_read() may have changed.
  void resume();

 private:
  class Process;
  explicit Helper(std::shared_ptr<Process> process) : process_(std::move(process)) {}

  const std::shared_ptr<Process> process_;
};

}  // namespace ddp::launcher

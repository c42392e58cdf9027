// SaveNotices waits for a notice that this node will be shut down. The notice is a file (--save-file), or a command
// that succeeds (--save-command).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/run/process/helper.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Used only from the event loop's thread.
class SaveNotices {
 public:
  struct Callbacks {
    // Called at most once, with the notice: "/run/notice exists", "'curl …' has ended with 0".
    std::function<void(const std::string& what)> found;
    // Called at most once, if the command cannot be executed or takes too long.
    std::function<void(const std::string& why)> failed;
  };

  // An empty `file` or `command` is ignored. /bin/sh runs the command every limits::kSaveCommandPause until it exits
  // with 0. Any other exit code means that there is no notice yet.
  SaveNotices(net::EventLoop& loop, std::string file, std::string command, Callbacks callbacks);

 private:
  void check_file_later();
  void run_command();
  void ended(int exit_code);
  void find(const std::string& what);
  void fail(const std::string& why);

  net::EventLoop& loop_;
  const std::string file_;
  const std::string command_;
  const Callbacks callbacks_;
  bool has_found_ = false;
  bool has_failed_ = false;
  std::unique_ptr<net::Watch> file_watch_;
  std::unique_ptr<net::Watch> command_watch_;  // for the next run, or for the current run's time limit
  std::unique_ptr<Helper> run_;
};

}  // namespace ddp::launcher

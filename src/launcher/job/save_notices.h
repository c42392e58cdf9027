// SaveNotices: looks for a notice of the machine's end where --save-file and --save-command say.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/process/helper.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the loop's thread.
class SaveNotices {
 public:
  struct Callbacks {
    std::function<void(const std::string& what)> found;  // once: "/run/notice exists", "curl … has ended with 0"
    std::function<void(const std::string& why)> failed;  // once: the command is none that can be run, or takes too long
  };

  // An empty name is looked for nowhere. A command is run by /bin/sh every limits::kSaveCommandPause until it ends with
  // 0; any other exit code says that there is no notice.
  SaveNotices(net::EventLoop& loop, std::string file, std::string command, Callbacks callbacks);

 private:
  void look_for_file();
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
  std::unique_ptr<net::Watch> command_watch_;  // the next run, or the end of the time of this one
  std::unique_ptr<Helper> run_;
};

}  // namespace ddp::launcher

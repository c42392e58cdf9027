#include "launcher/run/job/save_notices.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

SaveNotices::SaveNotices(net::EventLoop& loop, std::string file, std::string command, Callbacks callbacks)
    : loop_(loop), file_(std::move(file)), command_(std::move(command)), callbacks_(std::move(callbacks)) {
  // The first check is delayed: a program that has not been started cannot save.
  if (!file_.empty()) check_file_later();
  if (!command_.empty()) command_watch_ = loop_.at(Clock::now() + limits::kSaveFilePoll, [this] { run_command(); });
}

void SaveNotices::check_file_later() {
  file_watch_ = loop_.at(Clock::now() + limits::kSaveFilePoll, [this] {
    if (::access(file_.c_str(), F_OK) == 0) return find(file_ + " exists");
    check_file_later();
  });
}

void SaveNotices::run_command() {
  if (has_found_) return;
  HelperCallbacks callbacks;
  callbacks.read = [](std::size_t, std::string_view) {};
  callbacks.ended = [this](const base::ExitStatus& status) { ended(status.shell_code()); };
  command_watch_ = loop_.at(Clock::now() + limits::kSaveCommandTime, [this] {
    fail("did not exit within " + base::human_duration(limits::kSaveCommandTime));
    run_.reset();
    run_command();
  });
  auto run = Helper::start(loop_, {{"/bin/sh", "-c", command_}, false, -1}, std::move(callbacks));
  if (run) {
    run_ = std::move(run).value();
  } else {
    fail(run.error().message);
  }
}

void SaveNotices::ended(int exit_code) {
  run_.reset();
  command_watch_ = loop_.at(Clock::now() + limits::kSaveCommandPause, [this] { run_command(); });
  if (exit_code == 0) return find("'" + command_ + "' exited with code 0");
  // The shell exits with these codes if it cannot execute or find a command.
  if (exit_code == 126 || exit_code == 127) fail("cannot be run (exit code " + std::to_string(exit_code) + ")");
}

void SaveNotices::find(const std::string& what) {
  if (!std::exchange(has_found_, true)) callbacks_.found(what);
}

void SaveNotices::fail(const std::string& why) {
  if (!std::exchange(has_failed_, true)) callbacks_.failed("--save-command: '" + command_ + "' " + why);
}

}  // namespace ddp::launcher

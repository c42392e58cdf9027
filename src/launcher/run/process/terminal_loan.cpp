#include "launcher/run/process/terminal_loan.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "launcher/run/process/process_sample.h"
#include "launcher/start/facts/standard_input.h"

namespace ddp::launcher {
namespace {

// The launcher's parent is its guardian, which has stayed in the session of the user's shell.
StandardInput input_of_job() {
  return standard_input(::getppid());
}

std::string file_of(pid_t pid, unsigned long descriptor) {
  std::error_code error;
  const std::string link = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  return std::filesystem::read_symlink(link, error).string();
}

// Returns whether a thread of the process waits in a read of this file.
bool reads(pid_t pid, const std::string& file) {
  constexpr std::size_t kMostThreads = 64;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task/";
  return std::ranges::any_of(sample_threads(pid, kMostThreads), [&](const ThreadSample& thread) {
    const std::string call = base::read_file(folder + std::to_string(thread.tid) + "/syscall");
    const std::vector<std::string> words = base::split(call, ' ');
    if (words.size() < 2 || words[0] != std::to_string(SYS_read)) return false;
    return file_of(pid, std::strtoul(words[1].c_str(), nullptr, 16)) == file;
  });
}

}  // namespace

TerminalLoan::TerminalLoan() {
  const StandardInput input = input_of_job();
  is_granted_ = input != StandardInput::background_terminal;
  termios mode{};
  if (input == StandardInput::terminal && ::tcgetattr(STDIN_FILENO, &mode) == 0) mode_ = mode;
}

TerminalLoan::~TerminalLoan() {
  if (mode_ && input_of_job() == StandardInput::terminal) ::tcsetattr(STDIN_FILENO, TCSANOW, &*mode_);
}

bool TerminalLoan::is_awaited_by(std::span<const pid_t> processes) const {
  termios mode{};
  if (!mode_ || ::tcgetattr(STDIN_FILENO, &mode) != 0) return false;
  constexpr tcflag_t kEditing = ICANON | ECHO;
  if ((mode.c_lflag & kEditing) != (mode_->c_lflag & kEditing)) return true;
  const std::string terminal = file_of(::getpid(), STDIN_FILENO);
  return std::ranges::any_of(processes, [&](pid_t pid) { return reads(pid, terminal); });
}

bool TerminalLoan::is_taken() const {
  return mode_ && input_of_job() == StandardInput::background_terminal;
}

}  // namespace ddp::launcher

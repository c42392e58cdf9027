#include "launcher/run/remote/controller_link.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "launcher/limits.h"
#include "launcher/run/remote/remote_texts.h"
#include "wire/worker_env.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ddp::launcher {
namespace {

// The login on this host may set such variables, which do not belong to this job.
void unset_option_variables() {
  std::vector<std::string> names;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string_view text = *line;
    if (text.starts_with("PET_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace

base::Result<std::unique_ptr<ControllerLink>> ControllerLink::take_over_standard_input() {
  if (::isatty(STDIN_FILENO) == 1) return base::Failure{kOnTerminalText};
  base::UniqueFd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  const base::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!fd || !nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0) {
    return base::Failure{no_input_text(std::strerror(errno))};
  }
  return std::make_unique<ControllerLink>(std::move(fd));
}

bool ControllerLink::read_some() {
  std::array<char, std::size_t{64} << 10> buffer;
  ssize_t got = -1;
  do {
    got = ::read(fd_.get(), buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got <= 0 || unread_.size() > limits::kLaunchRequestBytes) return false;
  unread_.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

std::optional<std::string> ControllerLink::next_line() {
  const std::size_t end = unread_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

std::optional<std::string> ControllerLink::wait_for_line() {
  auto line = next_line();
  while (!line && read_some()) line = next_line();
  return line;
}

base::Result<LaunchRequest> ControllerLink::wait_for_request() {
  const auto line = wait_for_line();
  if (line) return decode_request(*line);
  return base::Failure{kInputEndedText};
}

bool ControllerLink::wait_for_start() {
  const auto line = wait_for_line();
  const auto word = line ? decode_word(*line) : std::nullopt;
  return word && word->start;
}

void ControllerLink::watch(net::EventLoop& loop, Callbacks callbacks) {
  watch_ = loop.keep_watching(fd_.get(), [this, callbacks = std::move(callbacks)] {
    const bool is_open = read_some();
    while (const auto line = next_line()) {
      const auto word = decode_word(*line);
      if (word && word->signal != 0) callbacks.signal(word->signal);
    }
    if (is_open) return;
    // This must be the last step, because resetting the watch destroys this callback.
    const auto lost = callbacks.lost;
    watch_.reset();
    lost();
  });
}

void reply(const LaunchRequest& request, const LaunchReply& reply) {
  std::string text = reply_mark(request.nonce) + encode(reply) + "\n";
  const auto end = std::chrono::steady_clock::now() + limits::kConsoleGoodbye;
  while (!text.empty() && std::chrono::steady_clock::now() < end) {
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    if (::poll(&output, 1, 100) <= 0) continue;
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written > 0) text.erase(0, static_cast<std::size_t>(written));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
  }
}

std::optional<base::Failure> carry_out(const LaunchRequest& request) {
  if (::chdir(request.directory.c_str()) != 0) {
    return base::Failure{no_directory_on_host_text(request.directory, request.host, std::strerror(errno))};
  }
  ::setenv("PWD", request.directory.c_str(), 1);
  unset_option_variables();
  for (const std::string& line : request.environment) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) ::setenv(line.substr(0, equals).c_str(), line.substr(equals + 1).c_str(), 1);
  }
  // setenv() copies the token to memory that only this process sees. /proc/PID/environ shows what execve() got.
  if (!request.token.empty()) ::setenv(wire::env::kAuthToken, request.token.c_str(), 1);
  return std::nullopt;
}

}  // namespace ddp::launcher

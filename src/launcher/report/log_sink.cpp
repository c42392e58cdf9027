#include "launcher/report/log_sink.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <climits>
#include <string_view>

#include "base/printable.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kPrefix = "ddplaunch: ";
// A console that polls as ready takes so much at once; the rest of a longer line could wait for the reader for ever.
constexpr std::size_t kLongestLine = PIPE_BUF - kPrefix.size() - 1;

}  // namespace

LogSink::LogSink(bool quiet)
    : logger_(std::make_shared<spdlog::logger>("ddplaunch", std::make_shared<spdlog::sinks::stderr_sink_st>())),
      patience_(limits::kLastWordsWait) {
  logger_->set_pattern(std::string(kPrefix) + "%v");
  logger_->set_level(quiet ? spdlog::level::err : spdlog::level::info);
}

LogSink::~LogSink() {
  logger_->flush();
}

void LogSink::info(const std::string& line) {
  write(spdlog::level::info, line, /*is_last=*/false);
}

void LogSink::warning(const std::string& line) {
  write(spdlog::level::warn, "warning: " + line, /*is_last=*/false);
}

bool LogSink::error(const std::string& line) {
  return write(spdlog::level::err, line, /*is_last=*/false);
}

void LogSink::last_word(const std::string& line) {
  write(spdlog::level::err, line, /*is_last=*/true);
}

bool LogSink::write(int level, const std::string& line, bool is_last) {
  if (!logger_->should_log(static_cast<spdlog::level::level_enum>(level))) return true;
  if (prepare_) prepare_(wait());
  const bool is_ready = console_is_ready(is_last);
  if (is_ready) logger_->log(static_cast<spdlog::level::level_enum>(level), base::printable(line, kLongestLine));
  return is_ready;
}

// All lines of a report together must not wait for so long that other nodes take this one for lost.
std::chrono::milliseconds LogSink::wait() const {
  return takes_lines_ ? limits::kConsoleWait : std::chrono::milliseconds(0);
}

// A console that is stopped must not stop the launcher: SIGKILL at the end of the grace would never be sent.
bool LogSink::console_is_ready(bool is_last) {
  using Milliseconds = std::chrono::milliseconds;
  const auto is_ready_within = [](Milliseconds limit) {
    pollfd console{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&console, 1, static_cast<int>(limit.count())) > 0;
  };
  takes_lines_ = is_ready_within(wait());
  while (!takes_lines_ && is_last && patience_ > Milliseconds(0) && !(gives_up_ && gives_up_())) {
    const auto began = std::chrono::steady_clock::now();
    takes_lines_ = is_ready_within(limits::kConsoleLook);
    patience_ -= std::chrono::ceil<Milliseconds>(std::chrono::steady_clock::now() - began);
  }
  return takes_lines_;
}

}  // namespace ddp::launcher

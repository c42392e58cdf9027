#include "launcher/report/log_sink.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include "base/printable.h"
#include "launcher/limits.h"

namespace ddp::launcher {

LogSink::LogSink(bool quiet)
    : logger_(std::make_shared<spdlog::logger>("ddplaunch", std::make_shared<spdlog::sinks::stderr_sink_st>())),
      patience_(limits::kLastWordsWait) {
  logger_->set_pattern("ddplaunch: %v");
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
  if (prepare_) prepare_();
  const bool is_ready = console_is_ready(is_last);
  if (is_ready) logger_->log(static_cast<spdlog::level::level_enum>(level), base::printable(line));
  return is_ready;
}

// A console that is stopped must not stop the launcher: SIGKILL at the end of the grace would never be sent.
bool LogSink::console_is_ready(bool is_last) {
  using Milliseconds = std::chrono::milliseconds;
  const auto is_ready_within = [](Milliseconds limit) {
    pollfd console{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&console, 1, static_cast<int>(limit.count())) > 0;
  };
  if (is_ready_within(limits::kConsoleWait)) return true;
  while (is_last && patience_ > Milliseconds(0) && !(gives_up_ && gives_up_())) {
    const auto began = std::chrono::steady_clock::now();
    if (is_ready_within(limits::kConsoleLook)) return true;
    patience_ -= std::chrono::ceil<Milliseconds>(std::chrono::steady_clock::now() - began);
  }
  return false;
}

}  // namespace ddp::launcher

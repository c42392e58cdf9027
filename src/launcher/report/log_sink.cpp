#include "launcher/report/log_sink.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <chrono>

#include "base/limits.h"

namespace ddp::launcher {

LogSink::LogSink(bool quiet)
    : logger_(std::make_shared<spdlog::logger>("ddplaunch", std::make_shared<spdlog::sinks::stderr_sink_st>())) {
  logger_->set_pattern("ddplaunch: %v");
  logger_->set_level(quiet ? spdlog::level::err : spdlog::level::info);
}

LogSink::~LogSink() {
  logger_->flush();
}

void LogSink::info(const std::string& line) {
  write(spdlog::level::info, line);
}

void LogSink::warning(const std::string& line) {
  write(spdlog::level::warn, "warning: " + line);
}

void LogSink::error(const std::string& line) {
  write(spdlog::level::err, line);
}

void LogSink::write(int level, const std::string& line) {
  if (!logger_->should_log(static_cast<spdlog::level::level_enum>(level))) return;
  if (prepare_) prepare_();
  // A console that is stopped must not stop the launcher: SIGKILL at the end of the grace would never be sent.
  pollfd console{STDERR_FILENO, POLLOUT, 0};
  const auto limit = std::chrono::milliseconds(limits::kConsoleWait);
  if (::poll(&console, 1, static_cast<int>(limit.count())) > 0) {
    logger_->log(static_cast<spdlog::level::level_enum>(level), line);
  }
}

}  // namespace ddp::launcher

#include "launcher/report/log_sink.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

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
  logger_->log(spdlog::level::info, line);
}
void LogSink::warning(const std::string& line) {
  logger_->log(spdlog::level::warn, "warning: " + line);
}
void LogSink::error(const std::string& line) {
  logger_->log(spdlog::level::err, line);
}

}  // namespace ddp::launcher

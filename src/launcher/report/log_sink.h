// Where our own lines go: stderr, each preceded by "ddplaunch: ". The only file pair that knows spdlog.
#pragma once

#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace ddp::launcher {

class LogSink {
 public:
  // quiet: nothing below an error.
  explicit LogSink(bool quiet);
  ~LogSink();

  void info(const std::string& line);
  void warning(const std::string& line);
  void error(const std::string& line);

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace ddp::launcher

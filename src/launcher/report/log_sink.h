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
  // quiet: nothing below an error. A line that the console does not take within limits::kConsoleWait is dropped.
  explicit LogSink(bool quiet);
  ~LogSink();

  void info(const std::string& line);
  void warning(const std::string& line);
  void error(const std::string& line);

 private:
  void write(int level, const std::string& line);

  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace ddp::launcher

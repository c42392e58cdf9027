// Where our own lines go: stderr, each preceded by "ddplaunch: ". The only file pair that knows spdlog.
#pragma once

#include <functional>
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

  // Called before each line, so that it does not land in the middle of another's. Empty: nothing.
  void before_line(std::function<void()> prepare) { prepare_ = std::move(prepare); }

  void info(const std::string& line);
  void warning(const std::string& line);
  void error(const std::string& line);

 private:
  void write(int level, const std::string& line);

  std::shared_ptr<spdlog::logger> logger_;
  std::function<void()> prepare_;
};

}  // namespace ddp::launcher

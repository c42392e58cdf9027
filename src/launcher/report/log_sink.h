// Where our own lines go: stderr, each preceded by "ddplaunch: ". The only file pair that knows spdlog.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace ddp::launcher {

class LogSink {
 public:
  // quiet: nothing below an error. A line that the console does not take within limits::kConsoleWait is dropped, except
  // a last word; after that, lines are dropped without a wait until the console takes one again. A line is cut where
  // it would not fit in one write of PIPE_BUF bytes.
  explicit LogSink(bool quiet);
  ~LogSink();

  // Called before each line, so that it does not land in the middle of another's, with the longest time that it may
  // wait for the console. Empty: nothing.
  void before_line(std::function<void(std::chrono::milliseconds most)> prepare) { prepare_ = std::move(prepare); }

  void info(const std::string& line);
  void warning(const std::string& line);
  // False if the line was dropped.
  bool error(const std::string& line);

  // An error that ends the job: nothing is left that must not wait. All last words together wait up to
  // limits::kLastWordsWait for a console that takes nothing (a pager, Ctrl-S, a collector of logs).
  void last_word(const std::string& line);
  // Called every 50 ms while a last word waits; true ends the wait. Empty: nothing ends it early.
  void while_waiting(std::function<bool()> gives_up) { gives_up_ = std::move(gives_up); }

 private:
  bool write(int level, const std::string& line, bool is_last);
  std::chrono::milliseconds wait() const;
  bool console_is_ready(bool is_last);

  std::shared_ptr<spdlog::logger> logger_;
  std::function<void(std::chrono::milliseconds)> prepare_;
  std::function<bool()> gives_up_;
  std::chrono::milliseconds patience_;  // left for last words
  bool takes_lines_ = true;             // the console has taken the line before
};

}  // namespace ddp::launcher

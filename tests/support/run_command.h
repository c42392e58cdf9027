// Runs a program to its end and keeps its output, for integration tests.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

struct CommandResult {
  int exit_code = 0;  // 128 + n if killed by signal n; -1 if it had to be killed at the deadline
  std::string out;
  std::string err;
  std::chrono::milliseconds elapsed{0};
};

class Command {
 public:
  explicit Command(std::vector<std::string> words);
  // Kills the program if it still runs.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& set_environment(const std::string& name, const std::string& value);
  // Starts the program; its input is /dev/null.
  void start();
  pid_t pid() const { return pid_; }
  // Reads both outputs until the program has ended, for at most 100 s.
  CommandResult wait();
  // Reads until the standard output holds `text`. Returns false at the deadline or at the end of the output.
  bool wait_for_output(const std::string& text);

 private:
  bool read_some(int timeout_ms);

  std::vector<std::string> words_;
  std::map<std::string, std::string> environment_;
  pid_t pid_ = 0;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_;
  std::string err_;
  std::chrono::steady_clock::time_point start_;
};

CommandResult run_command(std::vector<std::string> words, const std::map<std::string, std::string>& environment = {});

// Returns the path of a program of this build.
std::string built(const std::string& program);

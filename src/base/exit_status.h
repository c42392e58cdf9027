// ExitStatus describes how a process ended. exited(11) and killed by signal 11 stay different everywhere.
#pragma once

#include <string>

namespace ddp::base {

class ExitStatus {
 public:
  static ExitStatus exited(int code) { return {Kind::exited, code, false}; }
  static ExitStatus killed(int signal, bool core_dumped = false) { return {Kind::killed, signal, core_dumped}; }

  // Converts the status that waitpid() returns for an ended process.
  static ExitStatus from_wait(int status);

  bool success() const { return kind_ == Kind::exited && number_ == 0; }
  bool was_killed() const { return kind_ == Kind::killed; }
  bool dumped_core() const { return core_dumped_; }
  // Returns the signal that killed it, or 0 if none did.
  int signal() const { return was_killed() ? number_ : 0; }
  bool was_killed_by(int signal) const { return was_killed() && number_ == signal; }

  // Returns the code that a shell would show: the exit code, or 128 + the signal's number.
  int shell_code() const { return was_killed() ? 128 + number_ : number_; }

  // Returns text such as "exit code 3" or "killed by SIGSEGV (core dumped)".
  std::string describe() const;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;

 private:
  enum class Kind { exited, killed };
  ExitStatus(Kind kind, int number, bool core_dumped) : kind_(kind), number_(number), core_dumped_(core_dumped) {}

  Kind kind_;
  int number_;
  bool core_dumped_;
};

}  // namespace ddp::base

// This header names the threads that this project starts in a program, so that tools can recognize them.
#pragma once

#include <sys/prctl.h>

#include <array>
#include <string>
#include <string_view>

namespace ddp::base {

// The name of such a thread in /proc/PID/task/TID/comm begins with this.
inline constexpr std::string_view kOwnThreads = "ddp:";

// `name` has at most 11 bytes.
inline void name_this_thread(std::string_view name) {
  const std::string full = std::string(kOwnThreads) + std::string(name);
  ::prctl(PR_SET_NAME, full.c_str(), 0, 0, 0);
}

// While it lives, threads that this thread starts, such as those of libraries, inherit this name.
class NamesThreads {
 public:
  explicit NamesThreads(std::string_view name) {
    ::prctl(PR_GET_NAME, before_.data(), 0, 0, 0);
    name_this_thread(name);
  }
  ~NamesThreads() { ::prctl(PR_SET_NAME, before_.data(), 0, 0, 0); }
  NamesThreads(const NamesThreads&) = delete;
  NamesThreads& operator=(const NamesThreads&) = delete;

 private:
  std::array<char, 16> before_{};
};

}  // namespace ddp::base

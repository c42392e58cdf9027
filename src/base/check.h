// DDP_CHECK(condition, values...) aborts the process at a bug of ddplaunch and prints the values, so that the bug does
// not show only later.
#pragma once

#include <sstream>
#include <string>

namespace ddp::base {

// Prints the false condition with its place and values to stderr and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& values);

template <typename... Values>
std::string print_values(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return out.str();
}

}  // namespace ddp::base

#define DDP_CHECK(condition, ...)                                                                        \
  do {                                                                                                   \
    if (!(condition)) [[unlikely]] {                                                                     \
      ::ddp::base::check_failed(#condition, __FILE__, __LINE__, ::ddp::base::print_values(__VA_ARGS__)); \
    }                                                                                                    \
  } while (false)

// CallSite: where in the program a collective was called, for messages.
#pragma once

namespace ddp {

// A value. `file` lives as long as the program. Made by the default argument of every collective, which the compiler
// evaluates where it is called. (std::source_location would do the same; clang 14 does not have it.)
struct CallSite {
  const char* file = "";
  int line = 0;

  static constexpr CallSite current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace ddp

// CallSite is the place in the program where a collective was called. Messages show it.
#pragma once

namespace ddp {

// This is a value type. `file` lives as long as the program. The default argument of every collective makes one, and
// the compiler evaluates it at the call. (std::source_location would do the same, but clang 14 does not have it.)
struct CallSite {
  const char* file = "";
  int line = 0;

  static constexpr CallSite current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace ddp

#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ddp::base {

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "ddplaunch: bug at %s:%d: %s is false%s%s\n", file, line, condition,
               values.empty() ? "" : "; values:", values.c_str());
  std::abort();
}

}  // namespace ddp::base

#include "base/hash.h"

#include <cinttypes>
#include <cstdio>

namespace ddp::base {

std::string hex64(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

}  // namespace ddp::base

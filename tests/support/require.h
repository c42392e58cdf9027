// Provides a check that any thread and any program may call.
#pragma once

#include <ddp/error.h>

#include <string>

namespace ddp::test {

// Catch2's assertions must be called from one thread, so ranks call this function.
inline void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::internal, "test: " + message);
}

}  // namespace ddp::test

// A check that any thread and any program may make.
#pragma once

#include <ddp/error.h>

#include <string>

namespace ddp::test {

// Catch's assertions belong to one thread; ranks use this one.
inline void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::internal, "test: " + message);
}

}  // namespace ddp::test

// Provides what the tests of wrapped libtorch modules share.
#pragma once

#include <ddp/ddp.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "support/require.h"

namespace ddp::test {

// Requires that the action throws a ddp::Error whose text has these words.
template <typename Action>
void expect(const std::string& words, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    require(std::string(error.what()).find(words) != std::string::npos, error.what());
    return;
  }
  require(false, "no error with: " + words);
}

struct TorchCase {
  const char* name;
  std::function<void()> run;
};

// Runs the cases in order. Returns false after the first one that fails, and prints its error.
inline bool all_pass(const ProcessGroup& world, const std::vector<TorchCase>& cases) {
  for (const TorchCase& each : cases) {
    try {
      each.run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s: %s\n", world.rank(), each.name, error.what());
      return false;
    }
  }
  return true;
}

}  // namespace ddp::test

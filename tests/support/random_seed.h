// Provides a seed that a failing test prints. DDP_TEST_SEED sets it, to see the same failure again.
#pragma once

#include <cstdlib>
#include <random>

namespace ddp::test {

inline unsigned random_seed() {
  const char* given = std::getenv("DDP_TEST_SEED");  // NOLINT(concurrency-mt-unsafe)
  if (given != nullptr) return static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  return std::random_device()();
}

}  // namespace ddp::test

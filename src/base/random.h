// random64() returns unpredictable numbers for names and nonces.
#pragma once

#include <cstdint>
#include <random>

namespace ddp::base {

// Returns 64 bits of the system's randomness.
inline std::uint64_t random64() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace ddp::base

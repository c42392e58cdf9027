// Fnv1a64 computes FNV-1a with 64 bits. It protects against accidents (incomplete files, differing parameters), not
// against attackers. The algorithm is by Fowler, Noll and Vo; https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
#pragma once

#include <bit>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace ddp::base {

class Fnv1a64 {
 public:
  void update(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      state_ ^= static_cast<std::uint64_t>(byte);
      state_ *= 0x100000001b3ULL;
    }
  }
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }

  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

// Adds one word to a rolling hash in the same way. After different words the states hardly ever become equal again.
constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  return (std::rotl(state, 23) ^ word) * 0x100000001b3ULL;
}

// Returns 16 lower-case hexadecimal digits.
inline std::string hex64(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

}  // namespace ddp::base

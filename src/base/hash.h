// FNV-1a, 64 bit: a checksum against accidents (torn files, differing parameters), not against attackers.
// Source: Fowler, Noll, Vo; https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
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

// The same idea, a word at a time: a step of a rolling number that is hardly ever the same after a difference.
constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  return (std::rotl(state, 23) ^ word) * 0x100000001b3ULL;
}

// 16 lower-case hexadecimal digits.
inline std::string hex64(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

}  // namespace ddp::base

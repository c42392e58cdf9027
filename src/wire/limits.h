// These limits are shared by both sides of a connection, or by launcher and workers. docs/development/limits.md says
// what happens when one is reached.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::limits {

using namespace std::chrono_literals;

// These are limits of the store protocol. The first three are those of PyTorch's own server, so its clients do not
// notice them.
inline constexpr std::size_t kStoreKeyBytes = std::size_t{8} << 10;
inline constexpr std::size_t kStoreValueBytes = std::size_t{8} << 20;
inline constexpr std::size_t kStoreKeysPerRequest = 131'072;
inline constexpr std::size_t kStoreRequestBytes = std::size_t{64} << 20;
inline constexpr std::size_t kStoreIdleBytes = std::size_t{4} << 10;  // buffer kept for an idle connection
// Limits the JSON part of a message between launchers, because parsing it takes about fifty times as much memory.
inline constexpr std::size_t kControlJsonBytes = std::size_t{512} << 10;
// A job is terminated if the rank that others wait for shows no progress for this time.
inline constexpr auto kHangStill = 30min;

}  // namespace ddp::limits

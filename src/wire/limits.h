// Limits that both sides of a connection, or launcher and workers, know. docs/development/limits.md says what happens
// when one is reached.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::limits {

using namespace std::chrono_literals;

// Store protocol. The first three are those of PyTorch's own server, so no client of it notices them.
inline constexpr std::size_t kStoreKeyBytes = std::size_t{8} << 10;
inline constexpr std::size_t kStoreValueBytes = std::size_t{8} << 20;
inline constexpr std::size_t kStoreKeysPerRequest = 131'072;
inline constexpr std::size_t kStoreRequestBytes = std::size_t{64} << 20;
inline constexpr std::size_t kStoreIdleBytes = std::size_t{4} << 10;  // kept for a connection that asks nothing
// Of a message between launchers, what is JSON: to read it takes some fifty times as much memory.
inline constexpr std::size_t kControlJsonBytes = std::size_t{512} << 10;
// Without any sign of life of the rank that is waited for, a job is terminated after so long.
inline constexpr auto kHangStill = 30min;

}  // namespace ddp::limits

// These functions use futexes in memory that processes share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ddp::internal {

// Sleeps while `word` is `expected`, but no longer than `limit`; may wake early.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit);

void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace ddp::internal

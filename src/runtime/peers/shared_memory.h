// SharedMemory is anonymous memory that other processes can map when they receive its descriptor. It has no name, so
// nothing is left behind, whatever kills the process. Only the node's memory limits its size.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/unique_fd.h"

namespace ddp::internal {

class SharedMemory {
 public:
  // Creates zeroed memory; its size is sealed. Throws `unavailable` if the system refuses (memfd_create, ftruncate,
  // mmap).
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);

  // Opens the memory behind a descriptor from another process. Memory that this process has mapped already is not
  // mapped again, so ranks that are threads see each other's memory at one address. Throws `mismatch` if the memory is
  // not sealed.
  static std::shared_ptr<SharedMemory> open(base::UniqueFd fd);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Returns the descriptor until close_fd(). The mapping does not need it.
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }

 private:
  SharedMemory(base::UniqueFd fd, std::size_t size);

  base::UniqueFd fd_;
  std::size_t size_;
  std::byte* data_ = nullptr;
};

// Sleeps while `word` in shared memory is `expected`, but no longer than `limit`; may wake early.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit);

void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace ddp::internal

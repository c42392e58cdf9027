// SharedMemory: anonymous memory that other processes can map once they are given its descriptor. It has no name, so
// nothing is left behind whatever kills the process, and no limit but the node's memory.
#pragma once

#include <cstddef>
#include <memory>

#include "base/unique_fd.h"

namespace ddp::internal {

class SharedMemory {
 public:
  // Of zeros; its size is sealed. Throws `unavailable` if the system does not let us (memfd_create, ftruncate, mmap).
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);

  // The memory behind a descriptor from another process. Memory that this process has mapped already is not mapped
  // again: ranks that are threads see each other's memory at one address. Throws `mismatch` if it is not sealed.
  static std::shared_ptr<SharedMemory> open(base::UniqueFd fd);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Until close_fd(): the mapping does not need it.
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }

 private:
  SharedMemory(base::UniqueFd fd, std::size_t size);

  base::UniqueFd fd_;
  std::size_t size_;
  std::byte* data_ = nullptr;
};

}  // namespace ddp::internal

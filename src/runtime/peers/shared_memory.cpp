#include "runtime/peers/shared_memory.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string>

namespace ddp::internal {
namespace {

[[noreturn]] void refused(const char* call, std::size_t bytes) {
  throw Error(ErrorKind::unavailable, "cannot allocate " + std::to_string(bytes) + " bytes of shared memory: " + call +
                                          ": " + std::strerror(errno));
}

// Holds the memory that this process has mapped, by inode.
struct Mapped {
  std::mutex mutex;
  std::map<ino_t, std::weak_ptr<SharedMemory>> by_inode;
};
Mapped& mapped() {
  static Mapped mapped;
  return mapped;
}

ino_t inode_of(int fd, std::size_t& size) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) refused("fstat", 0);
  size = static_cast<std::size_t>(status.st_size);
  return status.st_ino;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedMemory::SharedMemory(base::UniqueFd fd, std::size_t size) : fd_(std::move(fd)), size_(size) {
  void* address = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) refused("mmap", size_);
  data_ = static_cast<std::byte*>(address);
  // This reduces page faults if the system has huge pages for shared memory. Otherwise it has no effect.
  ::madvise(address, size_, MADV_HUGEPAGE);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  base::UniqueFd fd(::memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) refused("memfd_create", bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) refused("ftruncate", bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) refused("fcntl(F_ADD_SEALS)", bytes);
  std::size_t size = 0;
  const ino_t inode = inode_of(fd.get(), size);
  std::shared_ptr<SharedMemory> memory(new SharedMemory(std::move(fd), bytes));
  const std::lock_guard lock(mapped().mutex);
  mapped().by_inode[inode] = memory;
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::open(base::UniqueFd fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    throw Error(ErrorKind::mismatch, "a rank of this node sent memory that is not sealed");
  }
  std::size_t size = 0;
  const ino_t inode = inode_of(fd.get(), size);
  const std::lock_guard lock(mapped().mutex);
  auto& known = mapped().by_inode[inode];
  if (auto memory = known.lock()) return memory;
  std::shared_ptr<SharedMemory> memory(new SharedMemory(std::move(fd), size));
  memory->close_fd();
  known = memory;
  return memory;
}

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{limit.count() / kSecond, limit.count() % kSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ddp::internal

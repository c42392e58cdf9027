#include "runtime/peers/shared_memory.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("shared memory is zeroed and cannot shrink while it is mapped") {
  const auto memory = SharedMemory::create(100'000);
  CHECK(memory->size() == 100'000);
  CHECK(std::all_of(memory->data(), memory->data() + memory->size(), [](std::byte b) { return b == std::byte{0}; }));
  CHECK(::ftruncate(memory->fd(), 10) != 0);
}

TEST_CASE("memory that this process has mapped is not mapped again") {
  const auto memory = SharedMemory::create(4096);
  const auto same = SharedMemory::open(base::UniqueFd(::dup(memory->fd())));
  CHECK(same == memory);
}

TEST_CASE("memory without seals is rejected") {
  base::UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  CHECK(::ftruncate(fd.get(), 4096) == 0);
  expect_error(ErrorKind::mismatch, {"sealed"}, [&] { SharedMemory::open(std::move(fd)); });
}

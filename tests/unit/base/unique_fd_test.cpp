#include "base/unique_fd.h"

#include <fcntl.h>

#include <cerrno>

#include "support/catch.h"

using ddp::base::UniqueFd;

namespace {
UniqueFd open_null() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}
}  // namespace

TEST_CASE("a descriptor is closed when its owner is destroyed") {
  int number = -1;
  {
    const UniqueFd fd = open_null();
    REQUIRE(fd);
    number = fd.get();
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("a moved descriptor has exactly one owner") {
  UniqueFd first = open_null();
  const int number = first.get();
  UniqueFd second = std::move(first);
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the point
  CHECK(second.get() == number);
  UniqueFd third = open_null();
  const int replaced = third.get();
  third = std::move(second);
  CHECK_FALSE(is_open(replaced));
  CHECK(third.get() == number);
}

TEST_CASE("a released descriptor stays open") {
  UniqueFd fd = open_null();
  const UniqueFd taken(fd.release());
  CHECK_FALSE(fd);
  CHECK(is_open(taken.get()));
}

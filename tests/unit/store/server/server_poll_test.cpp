#include "store/server/server_poll.h"

#include <poll.h>
#include <unistd.h>

#include <array>

#include "support/catch.h"

using namespace ddp::store;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kTimer = 1;
constexpr std::uint64_t kPipe = 7;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  ddp::base::UniqueFd out;
  ddp::base::UniqueFd in;
};

bool is_readable(int fd, int patience_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, patience_ms) == 1;
}

}  // namespace

TEST_CASE("a poll reports ready descriptors while they are watched") {
  ServerPoll poll;
  REQUIRE(poll.open(kTimer));
  const Pipe pipe;
  REQUIRE(poll.watch(pipe.out.get(), kPipe, EPOLLIN));
  CHECK(poll.ready().empty());
  CHECK_FALSE(is_readable(poll.fd(), 0));
  REQUIRE(::write(pipe.in.get(), "x", 1) == 1);
  CHECK(is_readable(poll.fd(), 0));
  REQUIRE(poll.ready().size() == 1);
  CHECK(poll.ready()[0].data.u64 == kPipe);
  poll.change(pipe.out.get(), kPipe, 0);
  CHECK(poll.ready().empty());
  poll.change(pipe.out.get(), kPipe, EPOLLIN);
  CHECK(poll.ready().size() == 1);
  poll.ignore(pipe.out.get());
  CHECK(poll.ready().empty());
}

TEST_CASE("the timer of a poll expires once, after the shortest of its delays") {
  ServerPoll poll;
  REQUIRE(poll.open(kTimer));
  CHECK_FALSE(poll.take_timer());
  poll.set_timer(1h);
  CHECK_FALSE(is_readable(poll.fd(), 0));
  poll.set_timer(1ms);
  poll.set_timer(1h);
  REQUIRE(is_readable(poll.fd(), 10'000));
  REQUIRE(poll.ready().size() == 1);
  CHECK(poll.ready()[0].data.u64 == kTimer);
  CHECK(poll.take_timer());
  CHECK_FALSE(poll.take_timer());
  CHECK(poll.ready().empty());
}

TEST_CASE("a pending expiry is not lost when the timer is set again") {
  ServerPoll poll;
  REQUIRE(poll.open(kTimer));
  poll.set_timer(1ns);
  REQUIRE(is_readable(poll.fd(), 10'000));
  poll.set_timer(1h);
  CHECK(poll.take_timer());
  poll.set_timer(1ns);
  CHECK(is_readable(poll.fd(), 10'000));
}

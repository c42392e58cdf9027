#include "runtime/peers/node_group.h"

#include <ddp/error.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/node_groups.h"
#include "support/signalled_thread.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("ranks of one node see each other's shared areas") {
  auto groups = meet_on_one_node(3);
  for (std::size_t own = 0; own < 3; ++own) {
    CHECK(groups[own]->size() == 3);
    CHECK(groups[own]->own() == own);
    CHECK(groups[own]->holds_all());
    CHECK(groups[own]->one_process());
    groups[own]->own_area().arrived.value = static_cast<std::uint32_t>(own + 10);
    std::memset(groups[own]->stage(own, 3), static_cast<int>(own), 100);
  }
  for (std::size_t own = 0; own < 3; ++own) {
    for (std::size_t peer = 0; peer < 3; ++peer) {
      CHECK(groups[own]->area(peer).arrived.value == peer + 10);
      CHECK(groups[own]->stage(peer, 3)[99] == static_cast<std::byte>(peer));
    }
  }
}

TEST_CASE("staging buffers and channels do not overlap") {
  const auto groups = meet_on_one_node(3);
  const NodeGroup& group = *groups[0];
  const auto* end_of_channels = group.channel_buffer(0, 2) + group.own_area().channel_bytes;
  CHECK(reinterpret_cast<const std::byte*>(&group.channel(0, 2) + 1) <= group.channel_buffer(0, 0));
  CHECK(end_of_channels <= group.stage(0, 0));
  CHECK(group.stage(0, 1) - group.stage(0, 0) == static_cast<std::ptrdiff_t>(group.own_area().stage_bytes));
}

TEST_CASE("other ranks notice when and how a rank leaves") {
  auto groups = meet_on_one_node(3);
  CHECK_FALSE(groups[0]->gone(1));
  groups[1].reset();
  CHECK(groups[0]->gone(1));
  CHECK(groups[0]->area(1).state == RankState::left);
  groups[2]->say_failed();
  CHECK(groups[0]->gone(2));
  groups[2].reset();
  CHECK(groups[0]->area(2).state == RankState::failed);
}

TEST_CASE("signals do not interrupt the wait for a rank of the same node") {
  const NodeListener first;
  const NodeListener second;
  const std::vector<std::string> names = {first.name(), second.name()};
  std::string error;
  std::optional<NodeLinks> links;
  run_with_signals(
      [&] {
        try {
          const NodeLinks own(first, names, 0, kPatience);
        } catch (const Error& thrown) {
          error = thrown.what();
        }
      },
      [&] { links.emplace(second, names, 1, kPatience); });
  CHECK(error.empty());
}

TEST_CASE("signals do not interrupt the wait for a rank that does not accept connections yet") {
  const std::string name = "ddp-full-" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto* bound = reinterpret_cast<const sockaddr*>(&address);
  const base::UniqueFd full(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const base::UniqueFd waiting(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(full.get(), bound, length) == 0);
  REQUIRE(::listen(full.get(), 0) == 0);
  REQUIRE(::connect(waiting.get(), bound, length) == 0);

  const NodeListener own;
  const std::vector<std::string> names = {name, own.name()};
  std::string error;
  base::UniqueFd first;
  run_with_signals(
      [&] {
        try {
          const NodeLinks links(own, names, 1, kPatience);
        } catch (const Error& thrown) {
          error = thrown.what();
        }
      },
      [&] { first.reset(::accept4(full.get(), nullptr, nullptr, SOCK_CLOEXEC)); });
  CHECK(error.empty());
}

TEST_CASE("ranks of several nodes connect to those of their own node") {
  const auto store = make_memory_store(kPatience);
  std::vector<std::shared_ptr<NodeGroup>> groups(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const Meeting meeting{rank, 4, kPatience, rank % 2 == 0 ? "a" : "b"};
      groups[static_cast<std::size_t>(rank)] = NodeGroup::meet(meeting, *store);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(groups[3]->ranks() == std::vector<int>{1, 3});
  CHECK(groups[3]->own() == 1);
  CHECK_FALSE(groups[3]->holds_all());
  CHECK(groups[0]->nodes() == std::vector<int>{0, 1, 0, 1});
}

TEST_CASE("a missing rank ends the meeting at the timeout") {
  expect_error(ErrorKind::timeout, {"host/1"}, [&] { NodeGroup::meet({0, 2, 0ms}, *make_memory_store(20ms)); });
}

TEST_CASE("shared segments are found by address and removed with their memory") {
  const auto groups = meet_on_one_node(2);
  auto memory = groups[0]->segments().allocate(10'000);
  auto* data = static_cast<std::byte*>(memory.get());
  const auto place = groups[0]->segments().place_of(data + 100, 50);
  CHECK(place.number == 1);
  CHECK(place.offset == 100);
  data[100] = std::byte{7};
  CHECK(groups[1]->segments().at(0, place, 50)[0] == std::byte{7});
  CHECK(groups[0]->segments().place_of(data + 9'999, 2).number == 0);
  expect_error(ErrorKind::internal, {"does not share"}, [&] { groups[1]->segments().at(0, {1, 9'999}, 2); });
  memory.reset();
  CHECK(groups[0]->segments().place_of(data, 1).number == 0);
}

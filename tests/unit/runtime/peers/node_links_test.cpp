// Plays a rank of this node that ends, keeps silent, or sends what no rank sends.
#include "runtime/peers/node_links.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <new>
#include <optional>
#include <string>

#include "runtime/peers/node_group.h"
#include "runtime/peers/shared_memory.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

namespace {

// Connects to a listener as any process of this user can.
class UnknownPeer {
 public:
  explicit UnknownPeer(const std::string& name) : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  }
  void say(std::string_view bytes) const { REQUIRE(::send(fd_.get(), bytes.data(), bytes.size(), 0) >= 0); }
  void say(std::uint32_t number) const { say({reinterpret_cast<const char*>(&number), sizeof number}); }
  void leave() { fd_.reset(); }

 private:
  base::UniqueFd fd_;
};

// Rank 0 of two waits for rank 1.
void expect_no_link(const NodeListener& own, std::chrono::milliseconds limit, ErrorKind kind, const std::string& why) {
  expect_error(kind, {why}, [&] { const NodeLinks links(own, {own.name(), "never connected to"}, 0, limit); });
}

// Plays rank 1 of two, as far as a test lets it, for rank 0, which meets it.
class Rank1 {
 public:
  // `entry` describes the rank in the store, if it is not empty.
  explicit Rank1(const std::string& entry = "") {
    store_->set("host/1", entry.empty() ? "node\n" + listener_.name() + "\n" + std::to_string(kNonce) : entry);
    rank_0_ = std::async(std::launch::async, [store = store_] {
      return NodeGroup::meet({0, 2, kPatience, "node"}, *store);
    });
  }

  void connect() {
    const std::string entry = store_->get("host/0");
    const std::size_t begin = entry.find('\n') + 1;
    const std::string name = entry.substr(begin, entry.find('\n', begin) - begin);
    links_.emplace(listener_, std::vector<std::string>{name, listener_.name()}, 1, kPatience);
    area_bytes_ = SharedMemory::open(std::move(links_->receive(0, kPatience).value().memory))->size();
  }
  void leave() { links_.reset(); }

  // Sends this rank's area, after `change` has changed it.
  template <typename Change>
  void send_area(const Change& change, std::size_t more_bytes = 0) {
    area_ = SharedMemory::create(area_bytes_ + more_bytes);
    auto* area = new (area_->data()) NodeArea;
    area->nonce = kNonce;
    change(*area);
    REQUIRE(links_->send(0, 0, area_->fd()));
  }
  void send(int memory) const { REQUIRE(links_->send(0, 0, memory)); }

  std::shared_ptr<NodeGroup> met() { return rank_0_.get(); }
  void expect_refusal(ErrorKind kind, const std::string& why) {
    expect_error(kind, {why}, [&] { met(); });
  }

 private:
  static constexpr std::uint64_t kNonce = 7;

  const std::shared_ptr<Store> store_ = make_memory_store(kPatience);
  const NodeListener listener_;
  std::optional<NodeLinks> links_;
  std::size_t area_bytes_ = 0;
  std::shared_ptr<SharedMemory> area_;
  std::future<std::shared_ptr<NodeGroup>> rank_0_;  // ends first
};

}  // namespace

TEST_CASE("a rank whose socket no longer exists is lost") {
  const NodeListener own;
  expect_error(ErrorKind::peer_lost, {"cannot reach another rank of this node"}, [&] {
    const NodeLinks links(own, {"ddp-of-a-rank-that-has-ended", own.name()}, 1, kPatience);
  });
}

TEST_CASE("a rank that does not connect is late") {
  const NodeListener own;
  expect_no_link(own, 20ms, ErrorKind::timeout, "1 rank of this node did not connect within 20 ms");
}

TEST_CASE("a rank that connects and then says nothing, leaves or sends something else is lost") {
  const NodeListener own;
  UnknownPeer peer(own.name());
  std::chrono::milliseconds limit = kPatience;
  SECTION("nothing") {
    limit = 20ms;
  }
  SECTION("leaves") {
    peer.leave();
  }
  SECTION("less than a number") {
    peer.say("?");
  }
  SECTION("its number is the listener's own") {
    peer.say(0);
  }
  SECTION("its number is that of no rank") {
    peer.say(2);
  }
  expect_no_link(own, limit, ErrorKind::peer_lost, "closed its connection, or two processes have the same rank");
}

TEST_CASE("two processes with the same rank are not both accepted") {
  const NodeListener own;
  const UnknownPeer first(own.name());
  const UnknownPeer second(own.name());
  first.say(1);
  second.say(1);
  expect_error(ErrorKind::peer_lost, {"two processes have the same rank"}, [&] {
    const NodeLinks links(own, {own.name(), "rank 1", "rank 2"}, 0, kPatience);
  });
}

TEST_CASE("a message that is not sent does not block its sender, and none comes from a rank that has left") {
  const NodeListener first;
  const NodeListener second;
  const std::vector<std::string> names = {first.name(), second.name()};
  auto later =
      std::async(std::launch::async, [&] { return std::make_optional<NodeLinks>(second, names, 1, kPatience); });
  const NodeLinks links(first, names, 0, kPatience);
  std::optional<NodeLinks> peer = later.get();
  CHECK_FALSE(links.receive(1, 1ms));
  // The peer reads nothing, so its queue is full at some time.
  CHECK(eventually([&] { return !links.send(1, 3, -1); }));
  CHECK(peer->receive(0, kPatience).value().number == 3);
  CHECK_FALSE(links.gone(1));
  peer.reset();
  CHECK(links.gone(1));
  CHECK_FALSE(links.send(1, 3, -1));
  CHECK_FALSE(links.receive(1, kPatience));
}

TEST_CASE("a rank that describes its node in another format is refused") {
  Rank1(std::string("a node, but no socket")).expect_refusal(ErrorKind::mismatch, "in an unknown format");
}

TEST_CASE("ranks meet if the other one sends its area") {
  Rank1 rank_1;
  rank_1.connect();
  rank_1.send_area([](NodeArea&) {});
  const auto group = rank_1.met();
  CHECK(group->size() == 2);
  CHECK_FALSE(group->gone(1));
  rank_1.leave();
  CHECK(group->gone(1));
  // It has sent no segment before.
  expect_error(ErrorKind::peer_lost, {"rank 1 has exited or left the group while it shared memory"}, [&] {
    group->segments().at(1, {1, 0}, 1);
  });
}

TEST_CASE("a rank that leaves before it has sent its area is named") {
  Rank1 rank_1;
  rank_1.connect();
  SECTION("without a message") {
    rank_1.leave();
  }
  SECTION("after a message without memory") {
    rank_1.send(-1);
  }
  rank_1.expect_refusal(ErrorKind::peer_lost, "rank 1 left while the ranks connected");
}

TEST_CASE("a rank whose area has another size, version or origin runs another version") {
  Rank1 rank_1;
  rank_1.connect();
  SECTION("size") {
    rank_1.send_area([](NodeArea&) {}, 4096);
  }
  SECTION("version") {
    rank_1.send_area([](NodeArea& area) { ++area.version; });
  }
  SECTION("no area") {
    rank_1.send_area([](NodeArea& area) { area.magic = 0; });
  }
  SECTION("that of an earlier run") {
    rank_1.send_area([](NodeArea& area) { ++area.nonce; });
  }
  rank_1.expect_refusal(ErrorKind::mismatch, "rank 1 runs another version of ddplaunch's runtime");
}

TEST_CASE("an area that its owner could still shrink is refused") {
  Rank1 rank_1;
  rank_1.connect();
  const base::UniqueFd memory(::memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(memory.get(), 1 << 20) == 0);
  rank_1.send(memory.get());
  rank_1.expect_refusal(ErrorKind::mismatch, "memory that is not sealed");
}

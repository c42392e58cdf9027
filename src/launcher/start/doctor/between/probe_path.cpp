#include "launcher/start/doctor/between/probe_path.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <span>
#include <thread>
#include <utility>

#include "base/side_thread.h"
#include "launcher/start/doctor/between/probe_server.h"
#include "net/address.h"
#include "net/socket.h"

namespace ddp::launcher::doctor {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Ask = ProbeRequest::What;

constexpr auto kConnect = 4s;               // the kernel asks three times in this time
constexpr auto kAnswer = 3s;                // for an answer, or for many bytes
constexpr std::uint64_t kMany = 256 << 10;  // bytes, more than a hundred of the largest packets
constexpr int kEchoes = 21;
constexpr auto kSending = 300ms;  // in each direction

class Connection {
 public:
  Connection(base::UniqueFd fd, int own, std::uint64_t key)
      : fd_(std::move(fd)), own_(static_cast<std::uint32_t>(own)), key_(key) {}

  bool ask(Ask what, std::uint64_t amount, net::Deadline until) const {
    ProbeRequest request{key_, what, own_, amount};
    return static_cast<bool>(net::send_all(fd_.get(), bytes_of(request), until));
  }
  bool send(std::span<const char> bytes, net::Deadline until) const {
    return static_cast<bool>(net::send_all(fd_.get(), bytes, until));
  }
  base::Result<std::size_t, net::SocketFailure> receive(std::span<char> bytes, net::Deadline until) const {
    return net::receive_some(fd_.get(), bytes, until);
  }
  std::optional<ProbeAnswer> answer(net::Deadline until) const {
    ProbeAnswer said;
    return net::receive_all(fd_.get(), bytes_of(said), until) ? std::optional(said) : std::nullopt;
  }
  void has_sent_all() const { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  base::UniqueFd fd_;
  std::uint32_t own_;
  std::uint64_t key_;
};

struct Tried {
  Reach reach = Reach::dropped;
  std::string why;
};

Tried try_once(const std::string& address, std::uint16_t port, int node, int own, std::uint64_t key) {
  using Kind = net::SocketFailure::Kind;
  auto fd = net::connect_tcp(address, port, Clock::now() + kConnect);
  if (!fd) {
    const Kind kind = fd.error().kind;
    const Reach reach = kind == Kind::refused     ? Reach::refused
                        : kind == Kind::timed_out ? Reach::dropped
                                                  : Reach::unreachable;
    return {reach, fd.error().message};
  }
  const Connection connection(std::move(fd).value(), own, key);
  const auto until = Clock::now() + kAnswer;
  if (!connection.ask(Ask::echo, 0, until)) return {Reach::foreign, "the connection was closed"};
  ProbeAnswer said;
  const auto got = connection.receive(bytes_of(said), until);
  if (!got && got.error().kind == Kind::timed_out) return {Reach::silent, got.error().message};
  const bool is_it = got && got.value() == sizeof said && said.node == static_cast<std::uint64_t>(node);
  return {is_it ? Reach::open : Reach::foreign, got ? "another program answers" : got.error().message};
}

// A node without room for another thread closes the connection.
Tried try_port(const std::string& address, std::uint16_t port, int node, int own, std::uint64_t key) {
  Tried tried = try_once(address, port, node, own, key);
  if (tried.reach != Reach::foreign) return tried;
  std::this_thread::sleep_for(500ms);
  return try_once(address, port, node, own, key);
}

// Asks often, and sets the median time of an answer and how much the other clock is ahead in the fastest one.
void compare_clocks(const Connection& connection, Path& path) {
  std::vector<double> times;
  const auto until = Clock::now() + kAnswer;
  for (int i = 0; i < kEchoes; ++i) {
    const auto unix_before = std::chrono::system_clock::now().time_since_epoch();
    const auto before = Clock::now();
    if (!connection.ask(Ask::echo, 0, until)) return;
    const auto said = connection.answer(until);
    if (!said) return;
    const std::chrono::duration<double> took = Clock::now() - before;
    const std::chrono::duration<double> there = std::chrono::nanoseconds(said->unix_ns) - (unix_before + took / 2);
    if (times.empty() || took.count() < std::ranges::min(times)) path.clock_ahead_s = there.count();
    times.push_back(took.count());
  }
  std::ranges::nth_element(times, times.begin() + kEchoes / 2);
  path.round_trip_us = times[kEchoes / 2] * 1e6;
}

Flow send_many(const Connection& connection) {
  std::vector<char> bytes(kMany);
  auto until = Clock::now() + kAnswer;
  if (!connection.ask(Ask::take, kMany, until) || !connection.send(bytes, until)) return Flow::lost_there;
  if (!connection.answer(until)) return Flow::lost_there;
  until = Clock::now() + kAnswer;
  if (!connection.ask(Ask::give, kMany, until)) return Flow::lost_back;
  for (std::size_t left = kMany; left > 0;) {
    const auto got = connection.receive(std::span(bytes).first(left), until);
    if (!got) return Flow::lost_back;
    left -= got.value();
  }
  return Flow::arrives;
}

}  // namespace

Path probe_path(const NodeAddress& to, int own, std::uint64_t key) {
  Path path;
  path.to = to.node;
  std::vector<std::future<Tried>> tries;
  const auto try_soon = [&](std::uint16_t port) {
    tries.push_back(base::on_side_thread(
        [=, address = to.address, node = to.node] { return try_port(address, port, node, own, key); }));
  };
  for (const std::uint16_t port : to.ports) try_soon(port);
  if (to.endpoint_port != 0) try_soon(to.endpoint_port);
  std::optional<std::uint16_t> open;
  for (std::size_t i = 0; i < tries.size(); ++i) {
    const bool is_endpoint = i == to.ports.size();
    const std::uint16_t port = is_endpoint ? to.endpoint_port : to.ports[i];
    const Tried tried = tries[i].get();
    is_endpoint ? void(path.endpoint_port = tried.reach) : path.ports.push_back(tried.reach);
    if (tried.reach == Reach::open && !open) open = port;
    if (tried.reach != Reach::open && path.why.empty()) path.why = tried.why;
  }
  if (!open) return path;
  const auto connect = [&](int segment) {
    return net::connect_tcp(to.address, *open, Clock::now() + kConnect, segment);
  };
  auto fd = connect(0);
  if (!fd) return path;
  const Connection connection(std::move(fd).value(), own, key);
  compare_clocks(connection, path);
  path.large = send_many(connection);
  if (path.large == Flow::arrives) return path;
  auto with_small = connect(kSmallSegment);
  if (with_small) path.small = send_many(Connection(std::move(with_small).value(), own, key));
  return path;
}

std::vector<std::string> addresses_of_name(const std::string& host) {
  std::vector<std::string> texts;
  const auto addresses = net::addresses_of(host);
  if (!addresses) return texts;
  for (const net::IpAddress& address : addresses.value()) texts.push_back(address.text());
  std::ranges::sort(texts);
  return texts;
}

std::optional<Speed> measure_speed(const NodeAddress& to, int own, std::uint64_t key) {
  if (to.ports.empty()) return std::nullopt;
  const auto connect = [&] { return net::connect_tcp(to.address, to.ports.front(), Clock::now() + kConnect, 0); };
  Speed speed{own, to.node, 0, 0};
  std::vector<char> bytes(1 << 20);
  auto fd = connect();
  if (!fd) return std::nullopt;
  const Connection there(std::move(fd).value(), own, key);
  const auto began = Clock::now();
  if (!there.ask(Ask::take_all, 0, began + kAnswer)) return std::nullopt;
  while (Clock::now() < began + kSending && there.send(bytes, began + kAnswer)) {
  }
  there.has_sent_all();
  const auto said = there.answer(began + kSending + kAnswer);
  if (!said) return std::nullopt;
  const std::chrono::duration<double> took = Clock::now() - began;
  speed.there = static_cast<double>(said->bytes) / took.count();

  fd = connect();
  if (!fd) return std::nullopt;
  const Connection back(std::move(fd).value(), own, key);
  const auto asked = Clock::now();
  if (!back.ask(Ask::give_for, std::chrono::milliseconds(kSending).count(), asked + kAnswer)) return std::nullopt;
  std::uint64_t got = 0;
  for (auto part = back.receive(bytes, asked + kAnswer); part; part = back.receive(bytes, asked + kAnswer)) {
    got += part.value();
  }
  speed.back = static_cast<double>(got) / std::chrono::duration<double>(Clock::now() - asked).count();
  return got > 0 ? std::optional(speed) : std::nullopt;
}

}  // namespace ddp::launcher::doctor

#include "store/client/store_visit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "net/address.h"
#include "store/limits.h"
#include "wire/store_message.h"

namespace ddp::store {
namespace {

using base::Result;
using base::UniqueFd;
using net::Deadline;
using net::SocketFailure;
using wire::StoreDialect;
using wire::StoreOp;
using wire::StoreRequest;
using Kind = VisitFailure::Kind;

// PyTorch 1.13's server reads the greeting as a key of this length, which it does not try to allocate.
constexpr std::uint32_t kNonce = 0x00FFFFFF;

StoreRequest request(StoreOp op, std::vector<std::string> keys = {}, std::vector<std::string> values = {},
                     std::uint32_t number = 0) {
  return {.op = op, .keys = std::move(keys), .values = std::move(values), .delta = 0, .number = number};
}

bool was_closed(const SocketFailure& failure) {
  return failure.kind == SocketFailure::Kind::closed;
}

template <typename Integer>
Result<Integer, SocketFailure> receive(int fd, Deadline until) {
  Integer value{};
  const auto received = net::receive_all(fd, std::span(reinterpret_cast<char*>(&value), sizeof value), until);
  if (!received) return received.error();
  return value;
}

constexpr std::chrono::milliseconds kUnanswered =
    limits::kStoreAliveIdle + limits::kStoreAliveTries * limits::kStoreAlivePause;

// The kernel sends probes only when no sent data awaits an acknowledgement.
void limit_unanswered_time(int fd, std::chrono::milliseconds time) {
  const auto patience = static_cast<unsigned>(time.count());
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

// Detects a peer whose node has failed: it would never send anything again.
void keep_alive(int fd) {
  const int on = 1;
  const auto idle = static_cast<int>(std::chrono::seconds(limits::kStoreAliveIdle).count());
  const auto pause = static_cast<int>(std::chrono::seconds(limits::kStoreAlivePause).count());
  const int tries = limits::kStoreAliveTries;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
  limit_unanswered_time(fd, kUnanswered);
  net::limit_retransmission_pause(fd);
}

VisitFailure foreign(const std::string& where, const std::string& what) {
  return {Kind::foreign, where + " is " + what + ", not ddplaunch's"};
}

// Finds out which server closes the connection upon the greeting: PyTorch 1.13's, or ddplaunch's when it refuses this
// client.
VisitFailure who_hangs_up(const std::string& host, std::uint16_t port, const std::string& where, Deadline until) {
  const auto fd = net::connect_tcp(host, port, until);
  if (!fd)
    return {Kind::unreachable, where + " closed the connection and is no longer reachable: " + fd.error().message};
  if (net::send_all(fd.value().get(), encode(request(StoreOp::key_count), StoreDialect::legacy), until)) {
    const auto count = receive<std::int64_t>(fd.value().get(), until);
    if (count && count.value() >= 0) return foreign(where, "PyTorch's store (a version before 2.2)");
  }
  return {Kind::refused, where +
                             " closed the connection: it is not a store, or it is a store that refuses this user or "
                             "node; its log contains the reason"};
}

}  // namespace

Result<StoreVisit, VisitFailure> StoreVisit::open(const std::string& host, std::uint16_t port,
                                                  std::shared_ptr<const Authenticator> authenticator, Deadline until) {
  until = std::min<Deadline>(until, std::chrono::steady_clock::now() + limits::kStoreHandshake);
  const std::string where = net::host_and_port(host, port);
  auto fd = net::connect_tcp(host, port, until);
  if (!fd) {
    return VisitFailure{Kind::unreachable, "cannot reach a store at " + where + ": " + fd.error().message};
  }
  StoreVisit visit(std::move(fd).value(), where);
  keep_alive(visit.fd());
  const auto greeted = net::send_all(
      visit.fd(),
      encode(request(StoreOp::validate, {}, {}, wire::kStoreMagic)) + encode(request(StoreOp::ping, {}, {}, kNonce)),
      until);
  const auto nonce = greeted ? receive<std::uint32_t>(visit.fd(), until) : greeted.error();
  if (!nonce && was_closed(nonce.error())) return who_hangs_up(host, port, where, until);
  if (!nonce || nonce.value() != kNonce) {
    return VisitFailure{Kind::foreign, where + " is not a store, because it does not answer like one"};
  }
  if (authenticator) {
    if (auto failure = visit.authenticate(authenticator, until)) {
      // A server that does not know the request closes the connection. A visit without a token finds out which server
      // it is.
      if (failure->kind != Kind::lost) return *failure;
      const auto other = open(host, port, nullptr, until);
      if (!other && other.error().kind == Kind::foreign) return other.error();
      if (!other) return *failure;
      return VisitFailure{
          Kind::refused,
          "the store at " + where +
              " has no token, so it accepts no proof. Start it with --auth-token-file, or leave the option out here"};
    }
  }
  if (auto failure = visit.expect_ours(until)) return *failure;
  return visit;
}

std::optional<VisitFailure> StoreVisit::authenticate(const std::shared_ptr<const Authenticator>& authenticator,
                                                     Deadline until) {
  ClientHandshake handshake(authenticator);
  const auto asked = net::send_all(fd(), encode(request(StoreOp::auth_hello, {}, {handshake.hello()})), until);
  if (!asked) return lost(asked.error());
  const auto answer = receive_bytes(until);
  if (!answer) return lost(answer.error());
  const VisitFailure wrong{Kind::refused,
                           "the store at " + where_ + " has another token. Give both sides the same one"};
  const auto proof = handshake.proof(answer.value());
  if (!proof) return wrong;
  const auto proved = net::send_all(fd(), encode(request(StoreOp::auth_proof, {}, {*proof})), until);
  if (!proved) return lost(proved.error());
  const auto verdict = receive<std::uint8_t>(fd(), until);
  if (!verdict || verdict.value() != 0) return wrong;
  proved_ = true;
  return std::nullopt;
}

std::optional<VisitFailure> StoreVisit::expect_ours(Deadline until) {
  const auto asked =
      net::send_all(fd(), encode(request(StoreOp::check, {std::string(wire::kStoreExtensionsKey)})), until);
  const auto answer = asked ? receive<std::uint8_t>(fd(), until) : asked.error();
  if (!answer) return lost(answer.error());
  greeted_ = answer.value() == wire::kStoreReady;
  if (greeted_) return std::nullopt;
  return foreign(where_, "PyTorch's store");
}

Result<wire::StoreReport, VisitFailure> StoreVisit::report(Deadline until) {
  const auto asked = net::send_all(fd(), encode(request(StoreOp::inspect)), until);
  if (!asked) return lost(asked.error());
  const auto bytes = receive_bytes(until);
  if (!bytes) return lost(bytes.error());
  auto report = wire::decode_store_report(bytes.value());
  if (report) return *std::move(report);
  return VisitFailure{Kind::foreign, "the store at " + where_ +
                                         " sent a report that cannot be read; it may run another version of ddplaunch"};
}

Result<std::string, VisitFailure> StoreVisit::absent_ranks(Deadline until) {
  const auto asked = net::send_all(fd(), encode(request(StoreOp::explain)), until);
  if (!asked) return lost(asked.error());
  std::string last;
  for (int lists = 0; lists < 3; ++lists) {
    auto list = receive_bytes(until);
    if (!list) return lost(list.error());
    last = std::move(list).value();
  }
  return last;
}

std::string StoreVisit::control_request(std::string_view message) {
  return encode(request(StoreOp::control, {}, {std::string(message)}));
}

Result<std::string, VisitFailure> StoreVisit::control_message(Deadline until) {
  auto message = receive_bytes(until);
  if (!message) return lost(message.error());
  return std::move(message).value();
}

Result<std::string, SocketFailure> StoreVisit::receive_bytes(Deadline until) {
  const auto length = receive<std::uint64_t>(fd(), until);
  if (!length) return length.error();
  if (length.value() > limits::kStoreUnsentBytes) {
    return SocketFailure{SocketFailure::Kind::failed,
                         "it sent a reply of " + std::to_string(length.value()) + " bytes"};
  }
  std::string bytes(length.value(), '\0');
  const auto received = net::receive_all(fd(), bytes, until);
  if (!received) return received.error();
  return bytes;
}

VisitFailure StoreVisit::lost(const SocketFailure& failure) const {
  if (was_closed(failure) && !proved_ && greeted_) {
    return {Kind::refused, "the store at " + where_ +
                               " closed the connection, because it requires a token. Give the token with "
                               "--auth-token-file"};
  }
  return {Kind::lost, "the connection to the store at " + where_ + " is lost: " + failure.message};
}

void StoreVisit::outlast(std::chrono::milliseconds silence) {
  limit_unanswered_time(fd(), silence + kUnanswered);
}

std::string StoreVisit::why_lost() const {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return std::strerror(error);
  return "it has closed the connection";
}

std::string StoreVisit::own_name() const {
  return net::own_endpoint(fd()).value_or(net::Endpoint{}).text();
}

}  // namespace ddp::store

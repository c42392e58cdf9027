#include "store/server/gatekeeper.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace ddp::store {

bool is_allowed_unauthenticated(const wire::StoreRequest& request) {
  using Op = wire::StoreOp;
  constexpr std::array kOps = {Op::validate, Op::ping, Op::auth_hello, Op::auth_proof};
  const bool asks_for_extensions =
      request.op == Op::check && request.keys.size() == 1 && request.keys[0] == wire::kStoreExtensionsKey;
  return asks_for_extensions || std::ranges::find(kOps, request.op) != kOps.end();
}

Gatekeeper::Gatekeeper(bool open, std::shared_ptr<const Authenticator> authenticator, bool open_to_machines)
    : authenticator_(std::move(authenticator)),
      policy_{open,
              ::geteuid(),
              net::uid_of_unknown_users(),
              lookup_.source() != net::PeerLookup::Source::none,
              authenticator_ != nullptr,
              open_to_machines} {}

Admission Gatekeeper::decide(int fd, const net::IpAddress& peer) {
  PeerFacts facts;
  if (const auto owner = lookup_.owner_of_peer(fd)) facts.owner = owner->uid;
  facts.on_this_machine = facts.owner.has_value() || net::is_own_address(peer);
  facts.of_authenticated_node = std::ranges::any_of(proved_, [&](const auto& entry) { return entry.second == peer; });
  return store::decide(policy_, facts);
}

std::optional<std::uint64_t> Gatekeeper::socket_of_peer(int fd) {
  const auto owner = lookup_.owner_of_peer(fd);
  return owner ? std::optional(owner->inode) : std::nullopt;
}

base::Result<std::string> Gatekeeper::hear(ConnectionId from, const net::IpAddress& address,
                                           const wire::StoreRequest& request) {
  if (authenticator_ == nullptr) return base::Failure{"it offers a token, but the store has none"};
  auto& handshake = handshakes_.try_emplace(from, authenticator_).first->second;
  std::string reply;
  if (request.op == wire::StoreOp::auth_hello) {
    const auto answer = handshake.hello(request.values[0]);
    if (!answer) return base::Failure{"its AUTH_HELLO is malformed or repeated"};
    wire::put_bytes(reply, *answer);
    return reply;
  }
  if (!handshake.proof(request.values[0])) return base::Failure{"it does not know the token"};
  proved_.insert_or_assign(from, address);
  wire::put_u8(reply, 0);
  return reply;
}

void Gatekeeper::forget(ConnectionId connection) {
  handshakes_.erase(connection);
  proved_.erase(connection);
}

}  // namespace ddp::store

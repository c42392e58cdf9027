// Gatekeeper holds the facts about the server's peers that decide which are admitted. See docs/explanation/security.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "net/address.h"
#include "net/peer_owner.h"
#include "store/handshake.h"
#include "store/server/admission.h"
#include "store/server/store_waiters.h"
#include "wire/store_message.h"
#include "wire/store_parser.h"

namespace ddp::store {

// These limits apply to a connection before it has proved the token. They suffice for that.
inline constexpr wire::StoreRequestLimits kUnauthenticatedLimits = {64, 64, 1, 256};
bool is_allowed_unauthenticated(const wire::StoreRequest& request);

inline constexpr const char* kOtherToken = "it has another token (--auth-token-file, DDP_AUTH_TOKEN)";

// It is not thread-safe.
class Gatekeeper {
 public:
  // If `open`, all peers are admitted. For `open_to_machines` see AdmissionPolicy. Without an authenticator no peer can
  // prove anything.
  Gatekeeper(bool open, std::shared_ptr<const Authenticator> authenticator, bool open_to_machines = false);

  // Decides whether the peer of the connected socket `fd` is admitted now.
  Admission decide(int fd, const net::IpAddress& peer);

  // Returns the inode of the peer's socket, if it is on this node.
  std::optional<std::uint64_t> socket_of_peer(int fd);

  // Handles AUTH_HELLO and AUTH_PROOF of a connection from that address. Returns the answer, or the reason why the
  // connection must be closed. After the proof, all connections from the same address are admitted until the connection
  // is forgotten.
  base::Result<std::string> hear(ConnectionId from, const net::IpAddress& address, const wire::StoreRequest& request);

  bool has_proved(ConnectionId connection) const { return proved_.contains(connection); }
  // Returns whether it has begun to prove the token and has not finished, so it has seen the server's proof. A client
  // that does not accept the server's proof disconnects without a message.
  bool is_proving(ConnectionId connection) const {
    return handshakes_.contains(connection) && !proved_.contains(connection);
  }
  void forget(ConnectionId connection);

  // See store/admission.h.
  std::optional<std::string> warning(const std::string& address) const { return admission_warning(policy_, address); }

 private:
  net::PeerLookup lookup_;
  const std::shared_ptr<const Authenticator> authenticator_;
  const AdmissionPolicy policy_;
  std::unordered_map<ConnectionId, ServerHandshake> handshakes_;
  std::unordered_map<ConnectionId, net::IpAddress> proved_;
};

}  // namespace ddp::store

// Gatekeeper: what the server knows of its peers when it decides who is let in. docs/explanation/security.md.
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

// What a connection may send before it has proved the token: enough for that.
inline constexpr wire::StoreRequestLimits kStrangersLimits = {64, 64, 1, 256};
bool is_for_strangers(const wire::StoreRequest& request);

inline constexpr const char* kOtherToken = "it has another token (--auth-token-file, DDP_AUTH_TOKEN)";

// Not thread-safe.
class Gatekeeper {
 public:
  // `open`: everybody is let in; `open_to_machines`: see AdmissionPolicy. Without an authenticator nobody can prove
  // anything.
  Gatekeeper(bool open, std::shared_ptr<const Authenticator> authenticator, bool open_to_machines = false);

  // Whether the peer of the connected socket `fd` is let in now.
  Admission decide(int fd, const net::IpAddress& peer);

  // The inode of the peer's socket, if it is of this machine.
  std::optional<std::uint64_t> socket_of_peer(int fd);

  // AUTH_HELLO and AUTH_PROOF of a connection from there: what to answer, or why the connection must be closed. Once it
  // has proved to know the token, all connections from the same address are let in, until it is forgotten.
  base::Result<std::string> hear(ConnectionId from, const net::IpAddress& address, const wire::StoreRequest& request);

  bool has_proved(ConnectionId connection) const { return proved_.contains(connection); }
  // It has begun to prove the token, and not ended: it has seen our own proof. Who does not believe that goes without a
  // word.
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

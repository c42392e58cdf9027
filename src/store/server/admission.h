// This file decides which peers may use the store. net/peer_owner and net/address provide the facts about a peer.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

namespace ddp::store {

// docs/explanation/security.md explains how much protection these rules give.
struct AdmissionPolicy {
  bool open = false;                 // --store-open; every peer is admitted
  uid_t own_uid = 0;                 // this user; root is admitted too
  std::optional<uid_t> unknown_uid;  // net::uid_of_unknown_users(); an owner with this uid may be any user
  bool tells_owners = true;          // true if net::PeerLookup has a source
  bool has_token = false;            // peers on other nodes can authenticate
  bool open_to_machines = false;     // admits peers on other nodes without a token, for a job on several nodes
};

struct PeerFacts {
  bool on_this_machine = false;  // it has a known owner, or an address of this node
  std::optional<uid_t> owner;
  bool of_authenticated_node = false;  // a launcher at this address has proved that it knows the token
};

struct Admission {
  enum class Verdict {
    admit,
    authenticate,  // only PING, VALIDATE, AUTH_HELLO and AUTH_PROOF are allowed until it has proved that it knows the
                   // token
    refuse,
  };
  Verdict verdict = Verdict::refuse;
  std::string reason;  // why the peer is not admitted: "it belongs to …"
};

Admission decide(const AdmissionPolicy& policy, const PeerFacts& peer);

// Returns a warning for the user of a store on `address` about the peers that can use it, for display at the start.
// Returns std::nullopt if no warning is needed.
std::optional<std::string> admission_warning(const AdmissionPolicy& policy, const std::string& address);

// Returns how many of `connections` may be unauthenticated at the same time.
std::size_t most_unauthenticated(std::size_t connections);

}  // namespace ddp::store

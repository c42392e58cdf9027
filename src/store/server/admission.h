// Who may talk to the store: the decision alone. What is known of a peer comes from net/peer_owner and net/address.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

namespace ddp::store {

// docs/explanation/security.md says what these rules are worth.
struct AdmissionPolicy {
  bool open = false;                 // --store-open: everybody
  uid_t own_uid = 0;                 // this user, and root
  std::optional<uid_t> unknown_uid;  // net::uid_of_unknown_users(): an owner that may be anybody
  bool tells_owners = true;          // whether net::PeerLookup has a source
  bool has_token = false;            // peers of other machines can authenticate
  bool open_to_machines = false;     // without a token, a job on several nodes: to whoever comes from another machine
};

struct PeerFacts {
  bool on_this_machine = false;  // it has an owner, or an address of this machine
  std::optional<uid_t> owner;
  bool of_authenticated_node = false;  // a launcher at this address has proved to know the token
};

struct Admission {
  enum class Verdict {
    admit,
    authenticate,  // nothing but PING, VALIDATE, AUTH_HELLO and AUTH_PROOF before it has proved to know the token
    refuse,
  };
  Verdict verdict = Verdict::refuse;
  std::string reason;  // why it is not admitted as it is, about the peer: "it belongs to …"
};

Admission decide(const AdmissionPolicy& policy, const PeerFacts& peer);

// What the user of a store that listens on `address` ought to know of its openness, said once at the start; nothing if
// there is nothing.
std::optional<std::string> admission_warning(const AdmissionPolicy& policy, const std::string& address);

// How many connections may have yet to prove the token, of `connections` in all.
std::size_t most_strangers(std::size_t connections);

}  // namespace ddp::store

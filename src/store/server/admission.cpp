#include "store/server/admission.h"

#include <algorithm>

#include "store/limits.h"

namespace ddp::store {
namespace {

using Verdict = Admission::Verdict;

constexpr const char* kRemedy = "; --store-open admits all users and hosts";

// A user that this user namespace does not know cannot be distinguished from others.
bool tells_owners(const AdmissionPolicy& policy) {
  return policy.tells_owners && policy.own_uid != policy.unknown_uid;
}

Admission refuse(std::string reason) {
  return {Verdict::refuse, std::move(reason)};
}

Admission decide_on_this_machine(const AdmissionPolicy& policy, const PeerFacts& peer) {
  if (!tells_owners(policy)) return {Verdict::admit, ""};
  if (!peer.owner) {
    return refuse(std::string("no process in this network namespace owns its end of the connection: it has exited, or "
                              "it runs behind a proxy or in another namespace") +
                  kRemedy);
  }
  const std::string uid = std::to_string(*peer.owner);
  if (peer.owner == policy.unknown_uid) {
    return refuse("it belongs to a user whom this user namespace does not know (shown as uid " + uid + ")" + kRemedy);
  }
  if (*peer.owner == policy.own_uid || *peer.owner == 0) return {Verdict::admit, ""};
  return refuse("it belongs to uid " + uid + ", but the store is for uid " + std::to_string(policy.own_uid) +
                (policy.own_uid == 0 ? "" : " and root") + kRemedy);
}

Admission decide_elsewhere(const AdmissionPolicy& policy, const PeerFacts& peer) {
  if (peer.of_authenticated_node) return {Verdict::admit, ""};
  if (policy.has_token) {
    return {Verdict::authenticate,
            "it comes from a node whose launcher has not proved that it knows the token (--auth-token-file)"};
  }
  if (policy.open_to_machines) return {Verdict::admit, ""};
  return refuse(
      "it comes from another node, and the store has no token; start the store with --auth-token-file, or with "
      "--store-open to admit all hosts");
}

}  // namespace

Admission decide(const AdmissionPolicy& policy, const PeerFacts& peer) {
  if (policy.open) return {Verdict::admit, ""};
  return peer.on_this_machine ? decide_on_this_machine(policy, peer) : decide_elsewhere(policy, peer);
}

std::optional<std::string> admission_warning(const AdmissionPolicy& policy, const std::string& address) {
  if (policy.open) {
    return "--store-open: every process that can reach " + address +
           " can read and change what the workers agree on, and so take over the job";
  }
  if (policy.open_to_machines && !policy.has_token) {
    return "the job has no token (--auth-token-file): every process on another node that can reach " + address +
           " can read and change what the workers agree on";
  }
  if (tells_owners(policy)) return std::nullopt;
  return "cannot determine which user opened a connection to " + address + " on this system (" +
         (policy.tells_owners ? "this user namespace does not know its own user"
                              : "neither socket diagnostics nor /proc/net/tcp can be read") +
         "): other users of this node can reach the store";
}

std::size_t most_unauthenticated(std::size_t connections) {
  return std::max(limits::kStoreUnauthenticated, connections / limits::kStoreUnauthenticatedPart);
}

}  // namespace ddp::store

#include "store/server/admission.h"

#include "support/catch.h"

using ddp::store::Admission;
using ddp::store::admission_warning;
using ddp::store::AdmissionPolicy;
using ddp::store::decide;
using ddp::store::most_unauthenticated;
using ddp::store::PeerFacts;
using Verdict = Admission::Verdict;

namespace {

constexpr uid_t kAnna = 1000;
constexpr uid_t kBert = 1001;
constexpr uid_t kNobody = 65'534;

AdmissionPolicy annas() {
  AdmissionPolicy policy;
  policy.own_uid = kAnna;
  return policy;
}

PeerFacts local(std::optional<uid_t> owner) {
  return {.on_this_machine = true, .owner = owner};
}

PeerFacts remote(bool of_authenticated_node = false) {
  return {.of_authenticated_node = of_authenticated_node};
}

}  // namespace

TEST_CASE("on this node the store admits only its own user and root") {
  CHECK(decide(annas(), local(kAnna)).verdict == Verdict::admit);
  CHECK(decide(annas(), local(0)).verdict == Verdict::admit);
  const Admission bert = decide(annas(), local(kBert));
  CHECK(bert.verdict == Verdict::refuse);
  CHECK(bert.reason ==
        "it belongs to uid 1001, but the store is for uid 1000 and root; --store-open admits all users and hosts");
}

TEST_CASE("a job on several nodes without a token is open to other nodes only") {
  AdmissionPolicy policy = annas();
  policy.open_to_machines = true;
  CHECK(decide(policy, remote()).verdict == Verdict::admit);
  CHECK(decide(policy, local(kBert)).verdict == Verdict::refuse);
  CHECK_THAT(*admission_warning(policy, "10.0.0.1:29400"), Catch::Contains("the job has no token"));
  policy.has_token = true;
  CHECK(decide(policy, remote()).verdict == Verdict::authenticate);
  CHECK_FALSE(admission_warning(policy, "10.0.0.1:29400"));
}

TEST_CASE("a store of root admits only root on this node") {
  AdmissionPolicy policy;
  CHECK(decide(policy, local(0)).verdict == Verdict::admit);
  CHECK(decide(policy, local(kAnna)).reason ==
        "it belongs to uid 1000, but the store is for uid 0; --store-open admits all users and hosts");
}

TEST_CASE("a peer on this node without an owner is refused") {
  const Admission admission = decide(annas(), local(std::nullopt));
  CHECK(admission.verdict == Verdict::refuse);
  CHECK_THAT(admission.reason,
             Catch::Contains("has exited") && Catch::EndsWith("--store-open admits all users and hosts"));
}

TEST_CASE("neither a token nor an authenticated launcher admits another user of this node") {
  AdmissionPolicy policy = annas();
  policy.has_token = true;
  for (PeerFacts peer : {local(kBert), local(std::nullopt)}) {
    CHECK(decide(policy, peer).verdict == Verdict::refuse);
    peer.of_authenticated_node = true;
    CHECK(decide(policy, peer).verdict == Verdict::refuse);
  }
}

TEST_CASE("a user that the namespace does not know is refused") {
  AdmissionPolicy policy = annas();
  policy.own_uid = 0;
  policy.unknown_uid = kNobody;
  CHECK(decide(policy, local(0)).verdict == Verdict::admit);
  CHECK_THAT(decide(policy, local(kNobody)).reason, Catch::Contains("does not know (shown as uid 65534)"));
  // The same holds if it is shown as root.
  policy.own_uid = kAnna;
  policy.unknown_uid = 0;
  CHECK(decide(policy, local(0)).verdict == Verdict::refuse);
  // If all users are known, the user `nobody` is like any other.
  policy.own_uid = kNobody;
  policy.unknown_uid = std::nullopt;
  CHECK(decide(policy, local(kNobody)).verdict == Verdict::admit);
}

TEST_CASE("if owners cannot be determined, this node is admitted with a warning and others are not") {
  AdmissionPolicy blind = annas();
  blind.tells_owners = false;
  AdmissionPolicy nobody = annas();
  nobody.own_uid = kNobody;
  nobody.unknown_uid = kNobody;
  for (const AdmissionPolicy& policy : {blind, nobody}) {
    CHECK(decide(policy, local(std::nullopt)).verdict == Verdict::admit);
    CHECK(decide(policy, local(kNobody)).verdict == Verdict::admit);
    CHECK(decide(policy, remote()).verdict == Verdict::refuse);
    REQUIRE(admission_warning(policy, "127.0.0.1"));
    CHECK_THAT(*admission_warning(policy, "127.0.0.1"),
               Catch::Contains("a connection to 127.0.0.1") && Catch::Contains("other users of this node"));
  }
  CHECK_THAT(*admission_warning(blind, "x"), Catch::Contains("neither socket diagnostics nor /proc/net/tcp"));
  CHECK_THAT(*admission_warning(nobody, "x"), Catch::Contains("does not know its own user"));
  CHECK_FALSE(admission_warning(annas(), "127.0.0.1"));
}

TEST_CASE("a peer from another node is refused without a token") {
  const Admission admission = decide(annas(), remote());
  CHECK(admission.verdict == Verdict::refuse);
  CHECK_THAT(admission.reason,
             Catch::Contains("has no token; start the store with --auth-token-file, or with --store-open"));
}

TEST_CASE("an authenticated launcher admits its whole node") {
  AdmissionPolicy policy = annas();
  policy.has_token = true;
  CHECK(decide(policy, remote()).verdict == Verdict::authenticate);
  CHECK_THAT(decide(policy, remote()).reason, Catch::Contains("launcher has not proved that it knows the token"));
  CHECK(decide(policy, remote(true)).verdict == Verdict::admit);
  // A uid of another node would mean nothing here.
  PeerFacts peer = remote();
  peer.owner = kAnna;
  CHECK(decide(policy, peer).verdict == Verdict::authenticate);
}

TEST_CASE("an open store admits everyone and logs it") {
  AdmissionPolicy policy = annas();
  policy.open = true;
  for (const PeerFacts& peer : {local(kBert), local(std::nullopt), remote(), remote(true)}) {
    CHECK(decide(policy, peer).verdict == Verdict::admit);
  }
  CHECK_THAT(admission_warning(policy, "0.0.0.0:29500").value_or(""),
             Catch::StartsWith("--store-open: every process that can reach 0.0.0.0:29500 can "));
}

TEST_CASE("at most a quarter of all connections may be unauthenticated") {
  CHECK(most_unauthenticated(65'536) == 16'384);
  CHECK(most_unauthenticated(20'000) == 5'000);
  CHECK(most_unauthenticated(512) == 256);
}

#include "store/server/gatekeeper.h"

#include "store/store_token.h"
#include "support/catch.h"
#include "support/sockets.h"
#include "support/store_requests.h"

using namespace ddp::test;
using namespace ddp::store;
using Verdict = Admission::Verdict;

namespace {

constexpr ConnectionId kAnna = 1;
const ddp::net::IpAddress kElsewhere = {false, {192, 0, 2, 1}, 0};

std::shared_ptr<const Authenticator> token(const std::string& text) {
  auto made = StoreToken::from_text(text);
  REQUIRE(made);
  return made.value();
}

StoreRequest auth(StoreOp op, const std::string& value) {
  return request(op, {}, {value});
}

// Returns the client's proof for the server's answer, which is a `bytes`.
std::optional<std::string> proof_for(ClientHandshake& client, const std::string& answer) {
  return client.proof(answer.substr(8));
}

}  // namespace

TEST_CASE("a process of the same user is admitted with or without a token") {
  BoundSocket listener;
  const RawPeer client(listener.listen().port());
  const RawPeer accepted(listener.accept());
  Gatekeeper without(false, nullptr);
  CHECK(without.decide(accepted.fd(), ddp::net::peer_endpoint(accepted.fd())->address).verdict == Verdict::admit);
  Gatekeeper with(false, token("0123456789abcdef"));
  CHECK(with.decide(accepted.fd(), ddp::net::peer_endpoint(accepted.fd())->address).verdict == Verdict::admit);
}

TEST_CASE("an address is admitted while an authenticated connection from it exists") {
  const auto secret = token("0123456789abcdef");
  Gatekeeper gatekeeper(false, secret);
  CHECK(gatekeeper.decide(-1, kElsewhere).verdict == Verdict::authenticate);
  ClientHandshake client(secret);
  const auto answer = gatekeeper.hear(kAnna, kElsewhere, auth(StoreOp::auth_hello, client.hello()));
  REQUIRE(answer);
  CHECK_FALSE(gatekeeper.has_proved(kAnna));
  const auto proof = proof_for(client, answer.value());
  REQUIRE(proof);
  const auto verdict = gatekeeper.hear(kAnna, kElsewhere, auth(StoreOp::auth_proof, *proof));
  REQUIRE(verdict);
  CHECK(verdict.value() == std::string(1, '\0'));
  CHECK(gatekeeper.has_proved(kAnna));
  CHECK(gatekeeper.decide(-1, kElsewhere).verdict == Verdict::admit);
  gatekeeper.forget(kAnna);
  CHECK(gatekeeper.decide(-1, kElsewhere).verdict == Verdict::authenticate);
}

TEST_CASE("a peer without the token is distinguished from one with it") {
  Gatekeeper gatekeeper(false, token("0123456789abcdef"));
  ClientHandshake other(token("another token of it"));
  const auto answer = gatekeeper.hear(kAnna, kElsewhere, auth(StoreOp::auth_hello, other.hello()));
  REQUIRE(answer);
  CHECK_FALSE(proof_for(other, answer.value()));  // the server does not know that token either
  const auto verdict = gatekeeper.hear(kAnna, kElsewhere, auth(StoreOp::auth_proof, std::string(32, 'x')));
  REQUIRE_FALSE(verdict);
  CHECK_THAT(verdict.error().message, Catch::Contains("does not know the token"));
  CHECK_FALSE(gatekeeper.hear(kAnna, kElsewhere, auth(StoreOp::auth_hello, "short")));
}

TEST_CASE("a store without a token refuses other nodes and logs it") {
  Gatekeeper gatekeeper(false, nullptr);
  CHECK(gatekeeper.decide(-1, kElsewhere).verdict == Verdict::refuse);
  CHECK_FALSE(gatekeeper.hear(kAnna, kElsewhere, auth(StoreOp::auth_hello, std::string(32, 'x'))));
  CHECK(Gatekeeper(true, nullptr).decide(-1, kElsewhere).verdict == Verdict::admit);
}

TEST_CASE("an unauthenticated peer may only greet and prove the token") {
  CHECK(is_allowed_unauthenticated(validate()));
  CHECK(is_allowed_unauthenticated(ping(1)));
  CHECK(is_allowed_unauthenticated(check({std::string(ddp::wire::kStoreExtensionsKey)})));
  CHECK(is_allowed_unauthenticated(auth(StoreOp::auth_proof, "")));
  for (const StoreRequest& refused :
       {check({"/k"}), get("/k"), set("/k", ""), inspect(), list_keys(), hello(0, 1, "")}) {
    CHECK_FALSE(is_allowed_unauthenticated(refused));
  }
}

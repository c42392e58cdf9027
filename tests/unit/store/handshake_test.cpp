#include "store/handshake.h"

#include <set>

#include "support/catch.h"
#include "support/fake_authenticator.h"

using ddp::store::ClientHandshake;
using ddp::store::kMacBytes;
using ddp::store::kNonceBytes;
using ddp::store::new_nonce;
using ddp::store::ServerHandshake;
using ddp::test::fake_authenticator;

namespace {

const std::string kClientNonce(kNonceBytes, 'c');
const std::string kServerNonce(kNonceBytes, 's');

struct Pair {
  ClientHandshake client;
  ServerHandshake server;

  explicit Pair(const std::string& clients = "secret", const std::string& servers = "secret")
      : client(fake_authenticator(clients), kClientNonce), server(fake_authenticator(servers), kServerNonce) {}
};

// Returns `text` with one bit flipped, for each of its bits.
std::vector<std::string> spoilt(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      all.push_back(text);
      all.back()[i] = static_cast<char>(all.back()[i] ^ (1 << bit));
    }
  }
  return all;
}

// Returns texts of wrong sizes made from `text`.
std::vector<std::string> misshapen(const std::string& text) {
  return {"", text.substr(1), text.substr(0, text.size() - 1), text + '\0', '\0' + text, text + text};
}

}  // namespace

TEST_CASE("two sides with the same secret authenticate each other") {
  Pair pair;
  CHECK(pair.client.hello() == kClientNonce);
  const auto answer = pair.server.hello(pair.client.hello());
  REQUIRE(answer);
  CHECK(answer->size() == kNonceBytes + kMacBytes);
  CHECK(answer->substr(0, kNonceBytes) == kServerNonce);
  CHECK_FALSE(pair.server.authenticated());
  const auto proof = pair.client.proof(*answer);
  REQUIRE(proof);
  CHECK(proof->size() == kMacBytes);
  CHECK(pair.server.proof(*proof));
  CHECK(pair.server.authenticated());
}

TEST_CASE("a server without the secret learns nothing from a client") {
  Pair pair("secret", "guess");
  CHECK_FALSE(pair.client.proof(*pair.server.hello(pair.client.hello())));
}

TEST_CASE("a client without the secret is rejected") {
  Pair pair("guess", "secret");
  static_cast<void>(pair.server.hello(pair.client.hello()));
  CHECK_FALSE(
      pair.server.proof(fake_authenticator("guess")->sign("ddplaunch store client" + kClientNonce + kServerNonce)));
  CHECK_FALSE(pair.server.authenticated());
}

TEST_CASE("each bit of the server's answer matters") {
  const std::string answer = *Pair().server.hello(kClientNonce);
  for (const auto& wrong : spoilt(answer)) CHECK_FALSE(Pair().client.proof(wrong));
  for (const auto& wrong : misshapen(answer)) CHECK_FALSE(Pair().client.proof(wrong));
}

TEST_CASE("each bit of the client's proof matters") {
  Pair good;
  const std::string proof = *good.client.proof(*good.server.hello(kClientNonce));
  auto wrong = spoilt(proof);
  for (const auto& each : misshapen(proof)) wrong.push_back(each);
  for (const auto& each : wrong) {
    Pair pair;
    static_cast<void>(pair.server.hello(kClientNonce));
    CHECK_FALSE(pair.server.proof(each));
    CHECK_FALSE(pair.server.authenticated());
    CHECK_FALSE(pair.server.proof(proof));  // each connection has one try
  }
}

TEST_CASE("each bit of the client's nonce matters") {
  Pair good;
  const std::string proof = *good.client.proof(*good.server.hello(kClientNonce));
  for (const auto& other : spoilt(kClientNonce)) {
    Pair pair;
    const auto answer = pair.server.hello(other);
    REQUIRE(answer);
    CHECK_FALSE(pair.client.proof(*answer));
    CHECK_FALSE(pair.server.proof(proof));
  }
  for (const auto& wrong : misshapen(kClientNonce)) {
    Pair pair;
    CHECK_FALSE(pair.server.hello(wrong));
    CHECK_FALSE(pair.server.hello(kClientNonce));
  }
}

TEST_CASE("a proof cannot be replayed") {
  Pair first;
  const std::string answer = *first.server.hello(kClientNonce);
  const std::string proof = *first.client.proof(answer);
  ServerHandshake second(fake_authenticator("secret"));
  REQUIRE(second.hello(kClientNonce));
  CHECK_FALSE(second.proof(proof));
  ClientHandshake another(fake_authenticator("secret"));
  CHECK_FALSE(another.proof(answer));
}

TEST_CASE("a reflected message is rejected") {
  // The server gets its own proof back.
  Pair pair;
  const std::string answer = *pair.server.hello(kClientNonce);
  CHECK_FALSE(pair.server.proof(answer.substr(kNonceBytes)));
  // Another server answers the first one's nonce, as if it were a client's.
  ServerHandshake first(fake_authenticator("secret"), kServerNonce);
  ServerHandshake second(fake_authenticator("secret"), kClientNonce);
  static_cast<void>(first.hello(kClientNonce));
  const std::string borrowed = second.hello(kServerNonce)->substr(kNonceBytes);
  CHECK_FALSE(first.proof(borrowed));
  // A false server sends the nonce back.
  CHECK_FALSE(Pair().client.proof(kClientNonce + kClientNonce));
}

TEST_CASE("handshake steps out of order end the handshake permanently") {
  Pair pair;
  CHECK_FALSE(pair.server.proof(std::string(kMacBytes, '\0')));
  CHECK_FALSE(pair.server.hello(kClientNonce));

  Pair twice;
  const std::string answer = *twice.server.hello(kClientNonce);
  CHECK_FALSE(twice.server.hello(kClientNonce));
  CHECK_FALSE(twice.server.proof(*twice.client.proof(answer)));
  CHECK_FALSE(twice.client.proof(answer));

  Pair done;
  const std::string proof = *done.client.proof(*done.server.hello(kClientNonce));
  REQUIRE(done.server.proof(proof));
  CHECK_FALSE(done.server.proof(proof));
  CHECK_FALSE(done.server.authenticated());
}

TEST_CASE("nonces differ") {
  std::set<std::string> nonces;
  for (int i = 0; i < 1000; ++i) nonces.insert(new_nonce());
  CHECK(nonces.size() == 1000);
  CHECK(nonces.begin()->size() == kNonceBytes);
}

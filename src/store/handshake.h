// This handshake is a mutual proof of a shared secret, as AUTH_HELLO and AUTH_PROOF carry it
// (docs/development/protocol.md). The state machines do no I/O. Each serves one connection and one attempt, and any
// mistake is final.
//
//   client                                             server
//   AUTH_HELLO  client nonce                       ->
//                                                  <-  server nonce, sign("ddplaunch store server", both nonces)
//   AUTH_PROOF  sign("ddplaunch store client", …)  ->
//
// The server proves first, so that a false server learns nothing from a client. Nonces are fresh, so that an attacker
// cannot replay recorded messages. The two sides sign different words, so that a message cannot be sent back to its
// sender.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::store {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;

// An Authenticator knows the secret. store_token.h has the real one, which is not linked into the runtime.
class Authenticator {
 public:
  virtual ~Authenticator() = default;

  virtual std::string sign(std::string_view message) const = 0;  // returns kMacBytes
  // The call takes the same time whatever is wrong.
  virtual bool verify(std::string_view message, std::string_view mac) const = 0;
};

// Returns kNonceBytes of randomness from the kernel.
std::string new_nonce();

class ServerHandshake {
 public:
  explicit ServerHandshake(std::shared_ptr<const Authenticator> authenticator, std::string nonce = new_nonce());

  // Takes the value of AUTH_HELLO. Returns the answer, or std::nullopt if the connection must be closed.
  std::optional<std::string> hello(std::string_view value);

  // Takes the value of AUTH_PROOF. Returns false if the connection must be closed.
  bool proof(std::string_view value);

  bool authenticated() const { return state_ == State::authenticated; }

 private:
  enum class State { fresh, answered, authenticated, failed };

  std::shared_ptr<const Authenticator> authenticator_;
  std::string nonce_;
  std::string nonces_;  // the client's nonce and the server's
  State state_ = State::fresh;
};

class ClientHandshake {
 public:
  explicit ClientHandshake(std::shared_ptr<const Authenticator> authenticator, std::string nonce = new_nonce());

  // Returns the value of AUTH_HELLO.
  const std::string& hello() const { return nonce_; }

  // Takes the server's answer. Returns the value of AUTH_PROOF, or std::nullopt if the server does not know the secret
  // and must not be trusted.
  std::optional<std::string> proof(std::string_view answer);

 private:
  std::shared_ptr<const Authenticator> authenticator_;
  std::string nonce_;
  bool done_ = false;
};

}  // namespace ddp::store

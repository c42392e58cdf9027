// Mutual proof of a shared secret, as AUTH_HELLO and AUTH_PROOF carry it (docs/development/protocol.md). State machines
// without I/O: each is good for one connection and one try, and any mistake is final.
//
//   client                                             server
//   AUTH_HELLO  client nonce                       ->
//                                                  <-  server nonce, sign("ddplaunch store server", both nonces)
//   AUTH_PROOF  sign("ddplaunch store client", …)  ->
//
// The server proves first, so that a false one gets nothing from a client. Nonces are fresh, so that nothing that was
// heard serves again; the two sides sign different words, so that nothing serves against its own sender.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::store {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;

// Who knows the secret. store_token.h has the real one, which the runtime is not linked with.
class Authenticator {
 public:
  virtual ~Authenticator() = default;

  virtual std::string sign(std::string_view message) const = 0;  // kMacBytes
  // Takes the same time whatever is wrong.
  virtual bool verify(std::string_view message, std::string_view mac) const = 0;
};

// kNonceBytes from the kernel.
std::string new_nonce();

class ServerHandshake {
 public:
  explicit ServerHandshake(std::shared_ptr<const Authenticator> authenticator, std::string nonce = new_nonce());

  // The value of AUTH_HELLO, and what to answer; nothing: close the connection.
  std::optional<std::string> hello(std::string_view value);

  // The value of AUTH_PROOF; false: close the connection.
  bool proof(std::string_view value);

  bool authenticated() const { return state_ == State::authenticated; }

 private:
  enum class State { fresh, answered, authenticated, failed };

  std::shared_ptr<const Authenticator> authenticator_;
  std::string nonce_;
  std::string nonces_;  // the client's and ours
  State state_ = State::fresh;
};

class ClientHandshake {
 public:
  explicit ClientHandshake(std::shared_ptr<const Authenticator> authenticator, std::string nonce = new_nonce());

  // The value of AUTH_HELLO.
  const std::string& hello() const { return nonce_; }

  // The server's answer, and the value of AUTH_PROOF; nothing: the server does not know the secret, and is not to be
  // believed.
  std::optional<std::string> proof(std::string_view answer);

 private:
  std::shared_ptr<const Authenticator> authenticator_;
  std::string nonce_;
  bool done_ = false;
};

}  // namespace ddp::store

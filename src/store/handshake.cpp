#include "store/handshake.h"

#include <sys/random.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace ddp::store {
namespace {

std::string as_server(std::string_view nonces) {
  return "ddplaunch store server" + std::string(nonces);
}

std::string as_client(std::string_view nonces) {
  return "ddplaunch store client" + std::string(nonces);
}

}  // namespace

std::string new_nonce() {
  std::string nonce(kNonceBytes, '\0');
  ssize_t got = -1;
  // getrandom() waits only on a node that has just booted.
  do got = ::getrandom(nonce.data(), nonce.size(), 0);
  while (got < 0 && errno == EINTR);
  DDP_CHECK(got == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

ServerHandshake::ServerHandshake(std::shared_ptr<const Authenticator> authenticator, std::string nonce)
    : authenticator_(std::move(authenticator)), nonce_(std::move(nonce)) {
  DDP_CHECK(nonce_.size() == kNonceBytes);
}

std::optional<std::string> ServerHandshake::hello(std::string_view value) {
  if (state_ != State::fresh || value.size() != kNonceBytes) {
    state_ = State::failed;
    return std::nullopt;
  }
  nonces_ = std::string(value) + nonce_;
  state_ = State::answered;
  return nonce_ + authenticator_->sign(as_server(nonces_));
}

bool ServerHandshake::proof(std::string_view value) {
  const bool proved = state_ == State::answered && authenticator_->verify(as_client(nonces_), value);
  state_ = proved ? State::authenticated : State::failed;
  return proved;
}

ClientHandshake::ClientHandshake(std::shared_ptr<const Authenticator> authenticator, std::string nonce)
    : authenticator_(std::move(authenticator)), nonce_(std::move(nonce)) {
  DDP_CHECK(nonce_.size() == kNonceBytes);
}

std::optional<std::string> ClientHandshake::proof(std::string_view answer) {
  if (std::exchange(done_, true) || answer.size() != kNonceBytes + kMacBytes) return std::nullopt;
  const std::string nonces = nonce_ + std::string(answer.substr(0, kNonceBytes));
  if (!authenticator_->verify(as_server(nonces), answer.substr(kNonceBytes))) return std::nullopt;
  return authenticator_->sign(as_client(nonces));
}

}  // namespace ddp::store

// Defines an authenticator for tests. It has no cryptography, but a different signature for each secret and message.
#pragma once

#include <memory>
#include <string>

#include "base/hash.h"
#include "store/handshake.h"

namespace ddp::test {

class FakeAuthenticator : public store::Authenticator {
 public:
  explicit FakeAuthenticator(std::string secret) : secret_(std::move(secret)) {}

  std::string sign(std::string_view message) const override {
    base::Fnv1a64 hash;
    hash.update(secret_);
    hash.update(message);
    return base::hex64(hash.value()) + base::hex64(~hash.value());
  }
  bool verify(std::string_view message, std::string_view mac) const override { return sign(message) == mac; }

 private:
  std::string secret_;
};

inline std::shared_ptr<const store::Authenticator> fake_authenticator(const std::string& secret) {
  return std::make_shared<FakeAuthenticator>(secret);
}

}  // namespace ddp::test

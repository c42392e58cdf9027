// StoreToken is the job's secret, by which launchers of other nodes prove that they belong to it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/handshake.h"

namespace ddp::store {

inline constexpr std::size_t kLeastTokenBytes = 16;
inline constexpr std::size_t kMostTokenBytes = 4096;

// Uses keyed BLAKE2b with 256 bits. It does not keep the token, only a key derived from it, and wipes that key in the
// destructor.
class StoreToken : public Authenticator {
 public:
  // Takes kLeastTokenBytes to kMostTokenBytes of any kind.
  static base::Result<std::shared_ptr<const StoreToken>> from_text(std::string_view text);

  // Reads a regular file of this user or root that no other user can read. A line break at its end is not part of the
  // token.
  static base::Result<std::shared_ptr<const StoreToken>> from_file(const std::string& path);

  StoreToken(const StoreToken&) = delete;
  StoreToken& operator=(const StoreToken&) = delete;
  ~StoreToken() override;

  std::string sign(std::string_view message) const override;
  bool verify(std::string_view message, std::string_view mac) const override;

 private:
  StoreToken() = default;

  std::array<unsigned char, kMacBytes> key_{};
};

// Overwrites a secret in a way that the compiler does not optimize away.
void wipe(char* bytes, std::size_t size);

}  // namespace ddp::store

#include "store/store_token.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"

namespace ddp::store {

using base::Failure;
using base::Result;

namespace {

constexpr std::string_view kPurpose = "ddplaunch store token";

std::array<unsigned char, kMacBytes> blake2b(std::string_view message, const unsigned char* key,
                                             std::size_t key_bytes) {
  std::array<unsigned char, kMacBytes> hash{};
  const auto* data = reinterpret_cast<const unsigned char*>(message.data());
  DDP_CHECK(crypto_generichash(hash.data(), hash.size(), data, message.size(), key, key_bytes) == 0);
  return hash;
}

// Returns why a file must not be used for a secret, or "" if it may.
std::string objection(const std::string& path, const struct stat& status) {
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (!S_ISREG(status.st_mode))
    return "is not a regular file. Put the token into a regular file or into DDP_AUTH_TOKEN.";
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return "belongs to uid " + std::to_string(status.st_uid) + ", which could change it. Use a file of your own.";
  }
  if ((status.st_mode & kOthers) != 0) {
    return "can be accessed by users other than its owner. Run: chmod 600 " + path;
  }
  return "";
}

}  // namespace

void wipe(char* bytes, std::size_t size) {
  sodium_memzero(bytes, size);
}

Result<std::shared_ptr<const StoreToken>> StoreToken::from_text(std::string_view text) {
  if (text.size() < kLeastTokenBytes || text.size() > kMostTokenBytes) {
    return Failure{"has " + std::to_string(text.size()) + " bytes; a token has " + std::to_string(kLeastTokenBytes) +
                   " to " + std::to_string(kMostTokenBytes) + ". Create one with: head -c 32 /dev/urandom | base64"};
  }
  if (sodium_init() < 0) return Failure{"cannot be used: libsodium cannot be initialized."};
  std::shared_ptr<StoreToken> token(new StoreToken());
  token->key_ = blake2b(text, reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size());
  return std::shared_ptr<const StoreToken>(std::move(token));
}

Result<std::shared_ptr<const StoreToken>> StoreToken::from_file(const std::string& path) {
  // O_NONBLOCK prevents waiting for a FIFO or a terminal.
  const base::UniqueFd fd(
      base::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return Failure{std::string("cannot be read (") + std::strerror(errno) + "). Check its name."};
  }
  if (const std::string why = objection(path, status); !why.empty()) return Failure{why};

  std::array<char, kMostTokenBytes + 2> text{};  // leaves space for a line break and one excess byte
  std::size_t size = 0;
  ssize_t got = 1;
  while (size < text.size() && got != 0) {
    got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  if (got < 0) return Failure{std::string("cannot be read (") + std::strerror(errno) + ")."};
  if (size > 0 && text[size - 1] == '\n') --size;
  auto token = from_text({text.data(), size});
  wipe(text.data(), text.size());
  return token;
}

StoreToken::~StoreToken() {
  sodium_memzero(key_.data(), key_.size());
}

std::string StoreToken::sign(std::string_view message) const {
  const auto mac = blake2b(message, key_.data(), key_.size());
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool StoreToken::verify(std::string_view message, std::string_view mac) const {
  if (mac.size() != kMacBytes) return false;
  const auto expected = blake2b(message, key_.data(), key_.size());
  return sodium_memcmp(expected.data(), mac.data(), expected.size()) == 0;
}

}  // namespace ddp::store

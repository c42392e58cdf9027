#include "store/store_token.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "store/handshake.h"
#include "support/bytes.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using ddp::store::ClientHandshake;
using ddp::store::ServerHandshake;
using ddp::store::StoreToken;

namespace {

const std::string kText = "0123456789abcdef";

std::shared_ptr<const StoreToken> token_of(const std::string& text) {
  auto token = StoreToken::from_text(text);
  REQUIRE(token);
  return token.value();
}

class TokenFile {
 public:
  explicit TokenFile(const std::string& content, mode_t mode = 0600) : path(folder_.path() + "/token") {
    std::ofstream(path) << content;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }

  std::string mistake() const {
    const auto token = StoreToken::from_file(path);
    return token ? "" : token.error().message;
  }
  // Returns the signature of a message, or "" if the token is not accepted.
  std::string signs() const {
    const auto token = StoreToken::from_file(path);
    return token ? token.value()->sign("m") : "";
  }

 private:
  TemporaryDirectory folder_;

 public:
  const std::string path;
};

}  // namespace

TEST_CASE("a signature is keyed BLAKE2b with a key derived from the token") {
  // Python gives the same for hashlib.blake2b(b"message", key=hashlib.blake2b(token, key=b"ddplaunch store token",
  // digest_size=32).digest(), …).
  CHECK(ddp::test::to_hex(token_of(kText)->sign("message")) ==
        "6A 47 D7 9D E5 94 2B 3B 42 A6 6D C6 3E AB B9 CD "
        "08 38 0D 5B 24 25 B2 D9 3E 37 1A A9 42 B4 37 55");
}

TEST_CASE("a signature is valid for one message and one token") {
  const auto token = token_of(kText);
  const std::string mac = token->sign("message");
  CHECK(token->verify("message", mac));
  CHECK(token_of(kText)->verify("message", mac));
  CHECK_FALSE(token->verify("massage", mac));
  CHECK_FALSE(token_of(kText + "0")->verify("message", mac));
  CHECK_FALSE(token->verify("message", ""));
  CHECK_FALSE(token->verify("message", mac + "0"));
  CHECK_FALSE(token->verify("message", mac.substr(0, 31)));
}

TEST_CASE("two sides with the same token authenticate each other, and with different tokens they do not") {
  const auto convinced = [](const std::string& clients, const std::string& servers) {
    ClientHandshake client(token_of(clients));
    ServerHandshake server(token_of(servers));
    const auto proof = client.proof(server.hello(client.hello()).value());
    return proof && server.proof(*proof);
  };
  CHECK(convinced(kText, kText));
  CHECK_FALSE(convinced(kText, "fedcba9876543210"));
}

TEST_CASE("a token has 16 to 4096 bytes") {
  CHECK(StoreToken::from_text(std::string(16, 'x')));
  CHECK(StoreToken::from_text(std::string(4096, '\0')));
  for (const std::size_t size : {0U, 15U, 4097U}) {
    const auto token = StoreToken::from_text(std::string(size, 'x'));
    REQUIRE_FALSE(token);
    CHECK_THAT(token.error().message, Catch::StartsWith("has " + std::to_string(size) + " bytes") &&
                                          Catch::EndsWith("Create one with: head -c 32 /dev/urandom | base64"));
  }
}

TEST_CASE("a token file is the token without one final line break") {
  const std::string signature = token_of(kText)->sign("m");
  CHECK(TokenFile(kText).signs() == signature);
  CHECK(TokenFile(kText + "\n").signs() == signature);
  CHECK(TokenFile(kText, 0400).signs() == signature);
  CHECK(TokenFile(kText + "\n\n").signs() == token_of(kText + "\n")->sign("m"));
  CHECK(TokenFile(kText + "\r\n").signs() == token_of(kText + "\r")->sign("m"));
  CHECK(TokenFile(std::string(4096, 'x') + "\n").signs() == token_of(std::string(4096, 'x'))->sign("m"));
  CHECK_THAT(TokenFile(std::string(4097, 'x')).mistake(), Catch::StartsWith("has 4097 bytes"));
  CHECK_THAT(TokenFile(std::string(100'000, 'x')).mistake(), Catch::Contains("a token has 16 to 4096"));
  CHECK_THAT(TokenFile("").mistake(), Catch::StartsWith("has 0 bytes"));
  CHECK_THAT(TokenFile("123456789012345\n").mistake(), Catch::StartsWith("has 15 bytes"));
}

TEST_CASE("a token file that others can access is rejected with the command that fixes it") {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0777}) {
    const TokenFile file(kText, mode);
    CHECK(file.mistake() == "can be accessed by users other than its owner. Run: chmod 600 " + file.path);
  }
}

TEST_CASE("a token file of another user is rejected") {
  const TokenFile file(kText);
  if (::geteuid() != 0) {
    WARN("skipped: giving a file away takes root");
    return;
  }
  REQUIRE(::chown(file.path.c_str(), 1234, 1234) == 0);
  CHECK_THAT(file.mistake(), Catch::StartsWith("belongs to uid 1234"));
}

TEST_CASE("a path that is not a regular file is not a token file") {
  const TokenFile file(kText);
  const TemporaryDirectory folder;
  const std::string fifo = folder.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string& path : {folder.path(), fifo, std::string("/dev/null")}) {
    const auto token = StoreToken::from_file(path);
    REQUIRE_FALSE(token);
    CHECK_THAT(token.error().message, Catch::StartsWith("is not a regular file"));
  }
  CHECK(StoreToken::from_file(folder.path() + "/absent").error().message ==
        "cannot be read (No such file or directory). Check its name.");
  // A link is as good as its target.
  const std::string link = folder.path() + "/link";
  REQUIRE(::symlink(file.path.c_str(), link.c_str()) == 0);
  CHECK(StoreToken::from_file(link));
}

TEST_CASE("wiped memory contains only zeros") {
  std::string secret = "secret";
  ddp::store::wipe(secret.data(), secret.size());
  CHECK(secret == std::string(6, '\0'));
}

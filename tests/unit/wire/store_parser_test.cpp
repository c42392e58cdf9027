// Tests what a client may not send: limits, unknown requests, garbage.
#include "wire/store_parser.h"

#include <random>

#include "support/bytes.h"
#include "support/catch.h"
#include "support/random_seed.h"
#include "support/store_requests.h"
#include "wire/limits.h"

using namespace ddp::test;
namespace limits = ddp::limits;
using ddp::wire::StoreDialect;
using ddp::wire::StoreNeedsMore;
using ddp::wire::StoreRequestParser;
using ddp::wire::StoreViolation;

namespace {

// Holds one connection's stream, with functions that the tests read like sentences.
class Stream {
 public:
  Stream& speaks_current() {
    sends(encode(validate()));
    REQUIRE(std::holds_alternative<StoreRequest>(parser_.next()));
    return *this;
  }
  Stream& sends(std::string_view bytes) {
    parser_.feed(bytes);
    return *this;
  }
  void is_a_request(const StoreRequest& expected) {
    const auto next = parser_.next();
    REQUIRE(std::holds_alternative<StoreRequest>(next));
    REQUIRE(std::get<StoreRequest>(next) == expected);
  }
  void waits_for_more() { REQUIRE(std::holds_alternative<StoreNeedsMore>(parser_.next())); }
  void is_refused_for(const std::string& reason) {
    const auto next = parser_.next();
    REQUIRE(std::holds_alternative<StoreViolation>(next));
    CHECK_THAT(std::get<StoreViolation>(next).reason, Catch::Contains(reason));
  }
  StoreRequestParser& parser() { return parser_; }

 private:
  StoreRequestParser parser_;
};

std::string length_word(std::uint64_t length) {
  std::string bytes;
  ddp::wire::put_i64(bytes, static_cast<std::int64_t>(length));
  return bytes;
}

}  // namespace

TEST_CASE("an opcode that the legacy dialect lacks is rejected") {
  for (const int opcode : {9, 10, 11, 12, 13, 14, 17, 18, 71, 0xD0, 255}) {
    INFO("opcode " << opcode);
    Stream()
        .sends(byte_reply(static_cast<std::uint8_t>(opcode)))
        .is_refused_for("unknown request " + std::to_string(opcode) + " (legacy");
  }
}

TEST_CASE("an opcode that the current dialect lacks is rejected") {
  for (int opcode = 19; opcode < 256; ++opcode) {
    if (opcode >= 0xD0 && opcode <= 0xD5) continue;  // these are ddplaunch's own requests
    INFO("opcode " << opcode);
    Stream()
        .speaks_current()
        .sends(byte_reply(static_cast<std::uint8_t>(opcode)))
        .is_refused_for("unknown request " + std::to_string(opcode) + " (current");
  }
}

TEST_CASE("a VALIDATE with a wrong magic number is rejected") {
  // As the first request it is parsed as a legacy SET whose key would be far too long.
  Stream().sends(encode(validate(0x3C85F7CF)) + encode(ping(1))).is_refused_for("a key of");
  Stream().speaks_current().sends(encode(validate(0))).is_refused_for("magic");
}

TEST_CASE("the first bytes of other protocols are rejected") {
  Stream().sends("GET / HTTP/1.1\r\nHost: node0\r\n\r\n").is_refused_for("unknown request 71");
  Stream().sends("SSH-2.0-OpenSSH_9.2\r\n").is_refused_for("unknown request 83");
  Stream()
      .sends(from_hex("16 03 01 02 00 01 00 01 FC 03 03"))
      .is_refused_for("unknown request 22");  // these bytes begin a TLS handshake
}

TEST_CASE("a huge length prefix is rejected before a byte is stored") {
  for (const std::uint64_t length : {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{1} << 40}) {
    INFO("length " << length);
    Stream().speaks_current().sends(byte_reply(1) + length_word(length)).is_refused_for("a key of");
    Stream().speaks_current().sends(byte_reply(1) + text_reply("k") + length_word(length)).is_refused_for("a value of");
    Stream().speaks_current().sends(byte_reply(6) + length_word(length)).is_refused_for("keys in one request");
    Stream().speaks_current().sends(byte_reply(11) + length_word(length)).is_refused_for("keys in one request");
    Stream().sends(byte_reply(0) + length_word(length)).is_refused_for("a key of");
    Stream().sends(byte_reply(5) + length_word(length)).is_refused_for("keys in one request");
  }
}

TEST_CASE("a key of 8 KiB is accepted, and one byte more is rejected") {
  const StoreRequest longest = get(std::string(limits::kStoreKeyBytes, 'k'));
  Stream().speaks_current().sends(encode(longest)).is_a_request(longest);
  Stream()
      .speaks_current()
      .sends(byte_reply(3) + length_word(limits::kStoreKeyBytes + 1))
      .is_refused_for("a key of 8193 bytes (limit 8192)");
}

TEST_CASE("a value of 8 MiB is accepted, and one byte more is rejected") {
  const StoreRequest largest = set("k", std::string(limits::kStoreValueBytes, 'v'));
  Stream().speaks_current().sends(encode(largest)).is_a_request(largest);
  Stream()
      .speaks_current()
      .sends(byte_reply(1) + text_reply("k") + length_word(limits::kStoreValueBytes + 1))
      .is_refused_for("a value of 8388609 bytes (limit 8388608)");
}

TEST_CASE("the largest number of keys is accepted, and one more is rejected") {
  const StoreRequest most = wait(std::vector<std::string>(limits::kStoreKeysPerRequest, "k"));
  Stream().speaks_current().sends(encode(most)).is_a_request(most);
  Stream()
      .speaks_current()
      .sends(byte_reply(6) + length_word(limits::kStoreKeysPerRequest + 1))
      .is_refused_for("131073 keys in one request (limit 131072)");
}

TEST_CASE("a request that grows beyond 64 MiB is rejected while it arrives") {
  // Each of nine values of 8 MiB is within its limit, but all together are not.
  Stream stream;
  stream.speaks_current().sends(byte_reply(11) + length_word(9));
  const std::string pair = text_reply("k") + text_reply(std::string(limits::kStoreValueBytes, 'v'));
  for (int i = 0; i < 7; ++i) stream.sends(pair).waits_for_more();
  stream.sends(pair).is_refused_for("a MULTI_SET request of more than");
}

TEST_CASE("after a protocol violation everything is rejected for the same reason") {
  Stream stream;
  stream.speaks_current().sends(byte_reply(200)).is_refused_for("unknown request 200");
  stream.sends(encode(ping(1))).is_refused_for("unknown request 200");
}

TEST_CASE("requests before a protocol violation are still parsed") {
  Stream stream;
  stream.speaks_current().sends(encode(ping(7)) + byte_reply(200));
  stream.is_a_request(ping(7));
  stream.is_refused_for("unknown request 200");
}

TEST_CASE("random bytes are parsed, rejected or incomplete") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 generator(seed);
  for (int round = 0; round < 2000; ++round) {
    INFO("round " << round);
    StoreRequestParser parser;
    if (round % 2 == 0) parser.feed(encode(validate()));
    for (int segment = 0; segment < 4; ++segment) {
      std::string bytes(generator() % 40, '\0');
      // Small bytes are valid opcodes and short lengths, so that the noise gets further.
      for (char& byte : bytes)
        byte = static_cast<char>(generator() % 3 == 0 ? generator() : generator() % 14 * (generator() % 2));
      parser.feed(bytes);
      auto next = parser.next();
      for (int read = 0; std::holds_alternative<StoreRequest>(next); ++read) {
        REQUIRE(read < 500);  // every request takes at least a byte
        next = parser.next();
      }
      if (std::holds_alternative<StoreViolation>(next)) {
        REQUIRE_FALSE(std::get<StoreViolation>(next).reason.empty());
      }
    }
  }
}

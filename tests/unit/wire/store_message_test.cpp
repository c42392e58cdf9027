// Tests the encodings byte for byte. docs/development/protocol.md quotes these examples.
#include "wire/store_message.h"

#include "support/bytes.h"
#include "support/catch.h"
#include "support/store_requests.h"
#include "wire/store_parser.h"

using namespace ddp::test;
using ddp::wire::StoreDialect;
using ddp::wire::StoreNeedsMore;
using ddp::wire::StoreRequestParser;

namespace {

struct Example {
  StoreRequest request;
  const char* hex;
};

const std::vector<Example>& current_examples() {
  static const std::vector<Example> examples = {
      {validate(), "00 CE F7 85 3C"},
      {set("/k", "v1"), "01 02 00 00 00 00 00 00 00 2F 6B 02 00 00 00 00 00 00 00 76 31"},
      {compare_set("/k", "", "v"),
       "02 02 00 00 00 00 00 00 00 2F 6B 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 76"},
      {get("/k"), "03 02 00 00 00 00 00 00 00 2F 6B"},
      {add("init/", 1), "04 05 00 00 00 00 00 00 00 69 6E 69 74 2F 01 00 00 00 00 00 00 00"},
      {add("n", -2), "04 01 00 00 00 00 00 00 00 6E FE FF FF FF FF FF FF FF"},
      {check({"a", "b"}), "05 02 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 61 01 00 00 00 00 00 00 00 62"},
      {wait({"a"}), "06 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 61"},
      {wait({}), "06 00 00 00 00 00 00 00 00"},
      {key_count(), "07"},
      {delete_key("a"), "08 01 00 00 00 00 00 00 00 61"},
      {append("a", "x"), "09 01 00 00 00 00 00 00 00 61 01 00 00 00 00 00 00 00 78"},
      {multi_get({"a"}), "0A 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 61"},
      {multi_set({"a", "b"}, {"1", ""}),
       "0B 02 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 61 01 00 00 00 00 00 00 00 31"
       " 01 00 00 00 00 00 00 00 62 00 00 00 00 00 00 00 00"},
      {cancel_wait(), "0C"},
      {ping(0x12345678), "0D 78 56 34 12"},
  };
  return examples;
}

const std::vector<Example>& legacy_examples() {
  static const std::vector<Example> examples = {
      {set("/k", "v1"), "00 02 00 00 00 00 00 00 00 2F 6B 02 00 00 00 00 00 00 00 76 31"},
      {compare_set("/k", "", "v"),
       "01 02 00 00 00 00 00 00 00 2F 6B 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 76"},
      {get("/k"), "02 02 00 00 00 00 00 00 00 2F 6B"},
      {add("init/", 1), "03 05 00 00 00 00 00 00 00 69 6E 69 74 2F 01 00 00 00 00 00 00 00"},
      {check({"a"}), "04 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 61"},
      {wait({"a"}), "05 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 61"},
      {key_count(), "06"},
      {delete_key("a"), "08 01 00 00 00 00 00 00 00 61"},
  };
  return examples;
}

void expect_request(StoreRequestParser& parser, const StoreRequest& expected) {
  const auto next = parser.next();
  REQUIRE(std::holds_alternative<StoreRequest>(next));
  CHECK(std::get<StoreRequest>(next) == expected);
}

bool needs_more(StoreRequestParser& parser) {
  return std::holds_alternative<StoreNeedsMore>(parser.next());
}

}  // namespace

TEST_CASE("each request of the current dialect has the documented bytes") {
  for (const Example& example : current_examples()) {
    CHECK(to_hex(encode(example.request)) == example.hex);
  }
}

TEST_CASE("each request of the legacy dialect has the documented bytes") {
  for (const Example& example : legacy_examples()) {
    CHECK(to_hex(encode(example.request, StoreDialect::legacy)) == example.hex);
  }
}

TEST_CASE("the replies have the documented bytes") {
  CHECK(to_hex(byte_reply(ddp::wire::kStoreStopWaiting)) == "00");
  CHECK(to_hex(byte_reply(ddp::wire::kStoreWaitCanceled)) == "01");
  CHECK(to_hex(number_reply(-1)) == "FF FF FF FF FF FF FF FF");
  CHECK(to_hex(text_reply("v1")) == "02 00 00 00 00 00 00 00 76 31");
  CHECK(to_hex(text_reply("")) == "00 00 00 00 00 00 00 00");
  std::string echo;
  ddp::wire::put_u32(echo, 0x12345678);
  CHECK(to_hex(echo) == "78 56 34 12");
}

TEST_CASE("each request is unchanged after encoding and decoding") {
  StoreRequestParser current;
  for (const Example& example : current_examples()) {
    current.feed(from_hex(example.hex));
    expect_request(current, example.request);
    CHECK(needs_more(current));
  }
  CHECK(current.dialect() == StoreDialect::current);

  StoreRequestParser legacy;
  for (const Example& example : legacy_examples()) {
    legacy.feed(from_hex(example.hex));
    expect_request(legacy, example.request);
    CHECK(needs_more(legacy));
  }
  CHECK(legacy.dialect() == StoreDialect::legacy);
}

TEST_CASE("a request that arrives byte by byte is parsed once it is complete") {
  StoreRequestParser parser;
  for (const Example& example : current_examples()) {
    INFO(example.hex);
    const std::string bytes = from_hex(example.hex);
    for (const char byte : bytes) {
      REQUIRE(needs_more(parser));
      parser.feed({&byte, 1});
    }
    expect_request(parser, example.request);
  }
}

TEST_CASE("pipelined requests are parsed wherever the segments are divided") {
  std::string stream;
  for (const Example& example : current_examples()) stream += from_hex(example.hex);
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    INFO("cut at byte " << cut);
    StoreRequestParser parser;
    std::vector<StoreRequest> requests;
    for (const std::string& segment : {stream.substr(0, cut), stream.substr(cut)}) {
      parser.feed(segment);
      auto next = parser.next();
      for (; std::holds_alternative<StoreRequest>(next); next = parser.next()) {
        requests.push_back(std::get<StoreRequest>(std::move(next)));
      }
      REQUIRE(std::holds_alternative<StoreNeedsMore>(next));
    }
    REQUIRE(requests.size() == current_examples().size());
    for (std::size_t i = 0; i < requests.size(); ++i) REQUIRE(requests[i] == current_examples()[i].request);
  }
}

TEST_CASE("the dialect is undecided until the first bytes arrive") {
  StoreRequestParser parser;
  CHECK(needs_more(parser));
  CHECK_FALSE(parser.dialect());
  for (const char* byte : {"00", "CE", "F7", "85"}) {
    parser.feed(from_hex(byte));
    CHECK(needs_more(parser));
    CHECK_FALSE(parser.dialect());
  }
  parser.feed(from_hex("3C"));
  expect_request(parser, validate());
  CHECK(parser.dialect() == StoreDialect::current);
}

TEST_CASE("a first byte other than 0 selects the legacy dialect") {
  StoreRequestParser parser;
  parser.feed(from_hex("03"));
  CHECK(needs_more(parser));
  CHECK(parser.dialect() == StoreDialect::legacy);
}

TEST_CASE("keys and values may contain any bytes") {
  const StoreRequest request = set(std::string("\0/\xFF", 3), std::string("\0\0\n", 3));
  StoreRequestParser parser;
  parser.feed(encode(request, StoreDialect::legacy));
  expect_request(parser, request);
}

TEST_CASE("each operation has a name for messages") {
  CHECK(to_string(StoreOp::wait) == "WAIT");
  CHECK(to_string(StoreOp::key_count) == "GETNUMKEYS");
  CHECK(to_string(StoreOp::multi_set) == "MULTI_SET");
}

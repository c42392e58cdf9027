#include "launcher/remote/host_order.h"

#include <catch2/catch.hpp>

using namespace ddp::launcher;

namespace {

HostOrder order() {
  HostOrder order;
  order.nonce = "0123456789abcdef";
  order.starter = "here";
  order.host = "user@there";
  order.directory = "/home/J\xc3\xb6rg/a b";
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  order.words = {"ddplaunch", "--", all, "", "two\nlines"};
  order.environment = {"A=", "B=\xff\xfe", "C=x=y"};
  order.token = "secret\x01\x80";
  return order;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("an order comes back as it was, bytes of any kind, and is one line") {
  const std::string line = encode(order());
  CHECK(line.find('\n') == std::string::npos);
  const auto back = decode_order(line);
  REQUIRE(back.ok());
  CHECK(back.value() == order());
}

TEST_CASE("an order of another protocol is refused with both versions and what to do") {
  const std::string line =
      replaced(replaced(encode(order()), "\"protocol\":1", "\"protocol\":2"), "\"version\":\"", "\"version\":\"9.");
  const auto back = decode_order(line);
  REQUIRE_FALSE(back.ok());
  CHECK(back.error().message.find("is ddplaunch 9.") != std::string::npos);
  CHECK(back.error().message.ends_with("--remote-launcher."));
}

TEST_CASE("what is no order is refused") {
  const std::string line = encode(order());
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("hello"), std::string("[1]"), line.substr(0, line.size() / 2),
        replaced(line, "\"words\":[", "\"words\":[1,"), replaced(line, "\"token\"", "\"other\"")}) {
    CAPTURE(text);
    CHECK_FALSE(decode_order(text).ok());
  }
}

TEST_CASE("later words come back as they were") {
  CHECK(decode_word(encode(StarterWord{true, 0})) == StarterWord{true, 0});
  CHECK(decode_word(encode(StarterWord{false, 15})) == StarterWord{false, 15});
  CHECK(encode(StarterWord{false, 15}) == "{\"signal\":15}");
  CHECK_FALSE(decode_word("{\"signal\":\"x\"}"));
  CHECK_FALSE(decode_word("go"));
}

TEST_CASE("answers come back as they were") {
  CHECK(decode_answer(encode(HostAnswer{true, std::nullopt}) + "\n") == HostAnswer{true, std::nullopt});
  CHECK(decode_answer(encode(HostAnswer{false, 143}) + "\n") == HostAnswer{false, 143});
  for (const std::string text : {"", "ready ", "ended", "ended x", "ended 256", "ended -1"}) {
    CAPTURE(text);
    CHECK_FALSE(decode_answer(text));
  }
}

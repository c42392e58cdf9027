#include "launcher/run/remote/launch_request.h"

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

LaunchRequest request() {
  LaunchRequest request;
  request.nonce = "0123456789abcdef";
  request.controller = "here";
  request.host = "user@there";
  request.directory = "/home/J\xc3\xb6rg/a b";
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  request.words = {"ddplaunch", "--", all, "", "two\nlines"};
  request.environment = {"A=", "B=\xff\xfe", "C=x=y"};
  request.token = "secret\x01\x80";
  return request;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a launch request is one line and keeps all bytes") {
  const std::string line = encode(request());
  CHECK(line.find('\n') == std::string::npos);
  const auto back = decode_request(line);
  REQUIRE(back.ok());
  CHECK(back.value() == request());
}

TEST_CASE("a launch request of another protocol version is rejected with both versions and a remedy") {
  const std::string line =
      replaced(replaced(encode(request()), "\"protocol\":1", "\"protocol\":2"), "\"version\":\"", "\"version\":\"9.");
  const auto back = decode_request(line);
  REQUIRE_FALSE(back.ok());
  CHECK(back.error().message.find("is ddplaunch 9.") != std::string::npos);
  CHECK(back.error().message.ends_with("--remote-launcher."));
}

TEST_CASE("text that is not a launch request is rejected") {
  const std::string line = encode(request());
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("hello"), std::string("[1]"), line.substr(0, line.size() / 2),
        replaced(line, "\"words\":[", "\"words\":[1,"), replaced(line, "\"token\"", "\"other\"")}) {
    CAPTURE(text);
    CHECK_FALSE(decode_request(text).ok());
  }
}

TEST_CASE("controller messages are unchanged after encoding and decoding") {
  CHECK(decode_word(encode(ControllerWord{true, 0})) == ControllerWord{true, 0});
  CHECK(decode_word(encode(ControllerWord{false, 15})) == ControllerWord{false, 15});
  CHECK(encode(ControllerWord{false, 15}) == "{\"signal\":15}");
  CHECK_FALSE(decode_word("{\"signal\":\"x\"}"));
  CHECK_FALSE(decode_word("go"));
}

TEST_CASE("replies are unchanged after encoding and decoding") {
  CHECK(decode_reply(encode(LaunchReply{true, std::nullopt}) + "\n") == LaunchReply{true, std::nullopt});
  CHECK(decode_reply(encode(LaunchReply{false, 143}) + "\n") == LaunchReply{false, 143});
  for (const std::string text : {"", "ready ", "ended", "ended x", "ended 256", "ended -1"}) {
    CAPTURE(text);
    CHECK_FALSE(decode_reply(text));
  }
}

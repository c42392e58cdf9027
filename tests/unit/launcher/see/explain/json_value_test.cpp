#include "launcher/see/explain/json_value.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("JSON text is parsed to plain values") {
  const auto data = read_json(R"({"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"c": 18446744073709551615}})");
  REQUIRE(data.ok());
  const PlainValue root(data.value());
  const PlainValue list = root["a"];
  REQUIRE(list.size() == 6);
  CHECK(list.item(1).integer(0) == -2);
  CHECK(list.item(2).is(PlainValue::Kind::number));
  CHECK(list.item(3).integer(0) == 1);
  CHECK(list.item(4).is_none());
  CHECK(list.item(5).text() == "x\u00e9");
  CHECK(root["b"]["c"].is(PlainValue::Kind::number));  // it has more than 63 bits
  CHECK(root["b"].key(0).text() == "c");
  CHECK(root["b"]["d"]["e"].is_none());
}

TEST_CASE("text that is not JSON is an error") {
  for (const std::string text : {"", "{", "[1,", R"({"a" 1})", "[1] 2", "{\"a\": \"\xff\"}"}) {
    const auto data = read_json(text);
    REQUIRE_FALSE(data.ok());
    CHECK(data.error().message.starts_with("not JSON at byte"));
  }
}

TEST_CASE("deeply nested JSON is parsed without recursion") {
  const std::string text = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(read_json(text).ok());
}

#include "launcher/see/explain/plain_value.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::string_literals;
using Kind = PlainValue::Kind;

namespace {

PlainData read(const std::string& bytes) {
  auto data = read_pickle(bytes);
  REQUIRE(data.ok());
  return std::move(data).value();
}

std::string refusal(const std::string& bytes) {
  const auto data = read_pickle(bytes);
  REQUIRE_FALSE(data.ok());
  return data.error().message;
}

}  // namespace

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

TEST_CASE("a dictionary from PyTorch's pickler is parsed") {
  // {"version": "2.10", "ranks": [0, 300, 70000, -1], "pair": ("0", None), "done": True}, protocol 2
  const auto data = read("\x80\x02}q\0(X\7\0\0\0versionq\1X\4\0\0\0"s +
                         "2.10q\2X\5\0\0\0ranksq\3]q\4(K\0M\x2c\1Jp\x11\1\0J\xff\xff\xff\xff"s +
                         "eX\4\0\0\0pairX\1\0\0\0"s + "0N\x86q\5X\4\0\0\0done\x88u."s);
  const PlainValue root(data);
  CHECK(root["version"].text() == "2.10");
  const PlainValue ranks = root["ranks"];
  REQUIRE(ranks.size() == 4);
  CHECK(ranks.item(1).integer(0) == 300);
  CHECK(ranks.item(2).integer(0) == 70000);
  CHECK(ranks.item(3).integer(0) == -1);
  CHECK(root["pair"].item(0).text() == "0");
  CHECK(root["pair"].item(1).is_none());
  CHECK(root["done"].integer(0) == 1);
  CHECK(root["other"].is_none());
}

TEST_CASE("the other pickle protocols are parsed") {
  // pickle.dumps({"a": [1, 2.5, "x"], "b": {3}, "c": b"y", "d": -2**40}, protocol) of Python 3.11
  const std::string protocols[] = {
      "(dp0\nVa\np1\n(lp2\nI1\naF2.5\naVx\np3\nasVd\np4\nL-1099511627776L\ns."s,
      "}q\0(X\1\0\0\0aq\1]q\2(K\1G@\4\0\0\0\0\0\0X\1\0\0\0xq\3eX\1\0\0\0dq\4L-1099511627776L\nu."s,
      "\x80\4\x95\x2e\0\0\0\0\0\0\0}\x94(\x8c\1a\x94]\x94(K\1G@\4\0\0\0\0\0\0\x8c\1x\x94"s + "e\x8c\1"s +
          "d\x94\x8a\6\0\0\0\0\0\xffu."s,
  };
  for (const std::string& bytes : protocols) {
    const auto data = read(bytes);
    const PlainValue root(data);
    CHECK(root["a"].item(0).integer(0) == 1);
    CHECK(root["a"].item(1).is(Kind::number));
    CHECK(root["a"].item(2).text() == "x");
    CHECK(root["d"].integer(0) == -1099511627776);
  }
  const auto set = read("\x80\4\x8f\x94(K\3\x90."s);
  CHECK(PlainValue(set).item(0).integer(0) == 3);
}

TEST_CASE("a pickle that would execute code is rejected") {
  const std::string calls = "cos\nsystem\n(S'true'\ntR."s;
  CHECK(refusal(calls).starts_with("the pickle wants to import or to call something, which is refused,"));
  CHECK(refusal("\x80\4\x8c\2os\x8c\6system\x93."s).find("refused") != std::string::npos);
  CHECK(refusal("\x80\2K\1Q."s).find("refused") != std::string::npos);
}

TEST_CASE("a pickle may use a value within itself") {
  const auto data = read("\x80\2]q\0h\0a."s);
  CHECK(PlainValue(data).item(0).item(0).item(0).size() == 1);
}

TEST_CASE("damaged pickles are errors") {
  CHECK(refusal("") == "the pickle is cut off at byte 0");
  CHECK(refusal("\x80\2X\xff\xff\xff\xff"s).starts_with("the pickle is cut off"));
  CHECK(refusal("\x80\2."s).starts_with("a value is missing"));
  CHECK(refusal("\x80\2h\5."s).starts_with("a value that was not memorized"));
  CHECK(refusal("\x80\2}(K\1u."s).starts_with("a key without a value"));
  CHECK(refusal("\x80\2K\1K\2a."s).starts_with("no container"));
  CHECK(refusal("\x80\2u."s).starts_with("a mark is missing"));
  CHECK(refusal("\x80\2(K\1(0."s).starts_with("a value is missing"));
  CHECK(refusal("\x80\2\xff."s).starts_with("unknown operation 255"));
  CHECK(refusal("\x80\2\x8a\x09xxxxxxxxx."s).starts_with("not an integer of 64 bits"));
  CHECK(refusal(std::string(100, '(')).starts_with("more than 64 open marks"));
}

TEST_CASE("a pickle cannot use more memory than its limit allows") {
  // Each list contains the previous one ten times.
  std::string bytes = "\x80\2]q\0"s;
  for (int i = 0; i < 200; ++i) bytes += "(h\0h\0h\0h\0h\0h\0h\0h\0h\0h\0lq\0"s;
  CHECK(read(bytes + ".").nodes.size() == 201);
  CHECK(refusal(std::string(kMostPlainNodes + 1, 'N')).starts_with("more than 2000000 values"));
}

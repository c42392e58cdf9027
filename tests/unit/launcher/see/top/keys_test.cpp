#include "launcher/see/top/keys.h"

#include <random>

#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp::launcher;
using Kind = Key::Kind;

namespace {

std::vector<Kind> kinds(KeyReader& reader, std::string_view bytes) {
  std::vector<Kind> result;
  for (const Key& key : reader.add(bytes)) result.push_back(key.kind);
  return result;
}

}  // namespace

TEST_CASE("the key sequences of common terminals are recognised") {
  KeyReader reader;
  using List = std::vector<Kind>;
  CHECK(kinds(reader, "\x1b[A\x1b[B\x1bOA\x1bOB") == List{Kind::up, Kind::down, Kind::up, Kind::down});
  CHECK(kinds(reader, "\x1b[5~\x1b[6~") == List{Kind::page_up, Kind::page_down});
  CHECK(kinds(reader, "\x1b[H\x1b[1~\x1b[7~\x1bOH\x1b[F\x1b[4~") ==
        List{Kind::home, Kind::home, Kind::home, Kind::home, Kind::end, Kind::end});
  CHECK(kinds(reader, "\r\n\x7f\b\f\t\x01") ==
        List{Kind::enter, Kind::enter, Kind::backspace, Kind::backspace, Kind::redraw, Kind::other, Kind::other});
  CHECK(kinds(reader, "\x1b[1;5C\x1b[<0;1;1M") == List{Kind::other, Kind::other});
  const auto keys = reader.add("q节");
  REQUIRE(keys.size() == 2);
  CHECK(keys[0] == Key{Kind::text, "q"});
  CHECK(keys[1] == Key{Kind::text, "节"});
}

TEST_CASE("a key sequence that arrives in pieces is one key") {
  for (const std::string whole : {"\x1b[A", "\x1b[5~", "\x1bOB", "节"}) {
    KeyReader at_once;
    const auto expected = at_once.add(whole);
    REQUIRE(expected.size() == 1);
    KeyReader reader;
    for (std::size_t i = 0; i + 1 < whole.size(); ++i) CHECK(reader.add(whole.substr(i, 1)).empty());
    CHECK(reader.add(whole.substr(whole.size() - 1)) == expected);
  }
}

TEST_CASE("Esc alone is recognised when no other byte follows") {
  KeyReader reader;
  CHECK(reader.add("\x1b").empty());
  CHECK(reader.is_undecided());
  CHECK(reader.decide() == std::vector<Key>{{Kind::escape, ""}});
  CHECK_FALSE(reader.is_undecided());
  CHECK(reader.decide().empty());
  CHECK(kinds(reader, "\x1bq") == std::vector<Kind>{Kind::escape, Kind::text});
}

TEST_CASE("any bytes give keys, and only an unfinished sequence is kept") {
  const unsigned seed = ddp::test::random_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr std::string_view kLikely = "\x1b[O;0123456789~AMq\xe8\x8a\xff";
  KeyReader reader;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes;
    for (int n = 0; n < 5; ++n) bytes += kLikely[random() % kLikely.size()];
    for (const Key& key : reader.add(bytes)) {
      REQUIRE((key.kind == Kind::text) == !key.text.empty());
      REQUIRE(key.text.find('\x1b') == std::string::npos);
    }
  }
  // Whatever came before, enough letters end it.
  const auto keys = reader.add(std::string(20, 'x'));
  CHECK(keys.back() == Key{Kind::text, "x"});
}

#include "launcher/facts/host_text.h"

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("a host's name is made of letters, digits and a few signs") {
  for (const char each : std::string("azAZ09.-_:%@")) CHECK(is_host_character(each));
  for (const char each : std::string(" \t\n\r'\"$;&|<>(){}*?!#~^+=,/\\[]`\x01\x7f\xc3"))
    CHECK_FALSE(is_host_character(each));
  CHECK_FALSE(is_host_character('\0'));
}

TEST_CASE("somebody else's text is fit for a terminal") {
  CHECK(shown("node[1-3]") == "\"node[1-3]\"");
  CHECK(shown("") == "\"\"");
  CHECK(shown("\x1b[31m\n") == "\"\\x1b[31m\\x0a\"");
  CHECK(shown("a\"b\\c\xc3") == "\"a\\x22b\\x5cc\\xc3\"");
  CHECK(shown(std::string(1, '\0')) == "\"\\x00\"");
}

TEST_CASE("a long text is cut") {
  CHECK(shown("abcdef", 6) == "\"abcdef\"");
  CHECK(shown("abcdefg", 6) == "\"abcdef…\"");
}

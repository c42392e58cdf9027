#include "base/printable.h"

#include "support/catch.h"

using ddp::base::printable;

TEST_CASE("control characters are shown as escaped bytes") {
  CHECK(printable("a\x1b[31m\nb\x7f") == "a\\x1b[31m\\x0ab\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");                   // this is CSI, a C1 control character
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");          // this is the right-to-left override
  CHECK(printable("\xe2\x81\xa6") == "\\xe2\\x81\\xa6");          // this is a direction isolate
  CHECK(printable("\xd8\x9c\xe2\x80\x8f").starts_with("\\xd8"));  // these are other direction marks
  CHECK(printable("\xe2\x80\xa8") == "\\xe2\\x80\\xa8");          // this is the line separator
}

TEST_CASE("printable text is shown unchanged") {
  const char* text = "a\tmod\xc3\xa8le \xe2\x86\x90 \xf0\x9f\x98\x80 \xd7\xa9 \xe2\x80\xa6";
  CHECK(printable(text) == text);
  CHECK(printable("").empty());
}

TEST_CASE("bytes that are not UTF-8 are escaped one by one") {
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");  // this is an overlong form of '/'
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // this is a surrogate
  CHECK(printable("\xf4\x90\x80\x80").size() == 16);      // this is beyond Unicode
}

TEST_CASE("long text is cut between two characters") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abc...");
  CHECK(printable("ab\xc3\xa8\xc3\xa8\xc3\xa8", 6) == "ab...");
  CHECK(printable("ab\x1b\x1b", 6) == "ab...");
  CHECK(printable("abcdefg", 2) == "..");
}

#include "launcher/see/view/styled_line.h"

#include <clocale>
#include <cwchar>

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("a styled line has colours only if the terminal has them, and fits its width") {
  StyledLine coloured(6, {true, true});
  coloured.add("ab", Style::red).add("  ", Style::red).add("cdefg", Style::plain);
  CHECK(coloured.text() == "\x1b[31mab\x1b[0m  c~");
  CHECK(coloured.left() == 0);
  CHECK(coloured.selected() == "\x1b[7mab  c~\x1b[0m");

  StyledLine plain(6, {false, true});
  plain.add("ab", Style::red).spaces(2);
  CHECK(plain.text() == "ab");
  CHECK(plain.left() == 2);
  CHECK(plain.selected() == "ab");
  CHECK(StyledLine(0, {true, true}).add("x", Style::red).text().empty());
}

TEST_CASE("wide and combining characters take as many columns as on a terminal") {
  CHECK(columns_of("abc") == 3);
  CHECK(columns_of("") == 0);
  CHECK(columns_of("训练") == 4);
  CHECK(columns_of("e\u0301") == 1);
  CHECK(columns_of("█░") == 2);
  CHECK(columns_of("🚀") == 2);
}

TEST_CASE("the widths of characters are those of the C library") {
  const std::string before = std::setlocale(LC_CTYPE, nullptr);
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) return;
  // The scripts that names of nodes and programs are likely to have.
  struct {
    wchar_t first;
    wchar_t last;
  } const kScripts[] = {{0x20, 0x7e},     {0xa1, 0xac},     {0xae, 0x377},    {0x384, 0x38a},
                        {0x400, 0x52f},   {0x5d0, 0x5ea},   {0x620, 0x66f},   {0x2500, 0x25fc},
                        {0x3041, 0x3096}, {0x4e00, 0x9fa5}, {0xac00, 0xd7a3}, {0x1f600, 0x1f64f}};
  int different = 0;
  for (const auto& script : kScripts) {
    for (wchar_t c = script.first; c <= script.last; ++c) {
      char bytes[MB_LEN_MAX];
      std::mbstate_t state{};
      const std::size_t size = std::wcrtomb(bytes, c, &state);
      if (::wcwidth(c) < 0) continue;
      if (columns_of({bytes, size}) == ::wcwidth(c)) continue;
      ++different;
      UNSCOPED_INFO("U+" << std::hex << static_cast<long>(c));
    }
  }
  CHECK(different == 0);
  std::setlocale(LC_CTYPE, before.c_str());
}

TEST_CASE("a text is cut between characters and marked as cut") {
  CHECK(cut_to("abcdef", 6) == "abcdef");
  CHECK(cut_to("abcdef", 4) == "abc~");
  CHECK(cut_to("abcdef", 1) == "~");
  CHECK(cut_to("abcdef", 0).empty());
  CHECK(cut_to("abcdef", -1).empty());
  CHECK(cut_to("训练程序", 4) == "训~");
  CHECK(cut_to("训练程序", 5) == "训练~");
  CHECK(left_aligned("训练程序", 4) == "训~ ");
  CHECK(right_aligned("ab", 4) == "  ab");
  CHECK(left_aligned("ab", 4) == "ab  ");
}

TEST_CASE("a cleaned text contains no control sequences") {
  CHECK(clean_text("a\tb\x1b[2J\n\xff") == "a b\\x1b[2J\\x0a\\xff");
}

#include "launcher/run/output/footer.h"

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

Footer footer_of(std::vector<std::string> lines) {
  Footer footer;
  footer.set(std::move(lines));
  return footer;
}

constexpr CursorPlace kLineStart = {};

}  // namespace

TEST_CASE("the cursor returns to the place where the output continues") {
  CHECK(footer_of({"a"}).draw(kLineStart, {}) == "\r\x1b[Ja\r");
  CHECK(footer_of({"a", "b"}).draw(kLineStart, {}) == "\r\x1b[Ja\r\nb\x1b[1A\r");
  CHECK(footer_of({"a", "b"}).draw({false, 7}, {}) == "\r\n\x1b[Ja\r\nb\x1b[2A\x1b[8G");
  CHECK(footer_of({"a"}).draw({false, 0}, {}) == "\r\n\x1b[Ja\x1b[1A\r");  // below a progress bar
}

TEST_CASE("only the drawn footer is erased") {
  Footer footer = footer_of({"a"});
  CHECK(footer.erase().empty());
  footer.draw(kLineStart, {});
  CHECK(footer.is_shown());
  CHECK(footer.erase() == "\x1b[J");
  CHECK_FALSE(footer.is_shown());
  footer.draw({false, 3}, {});
  CHECK(footer.erase() == "\r\n\x1b[J\x1b[1A\x1b[4G");
}

TEST_CASE("footer lines are redrawn only if they changed or were erased") {
  Footer footer;
  CHECK_FALSE(footer.is_outdated());
  footer.set({"a"});
  CHECK(footer.is_outdated());
  footer.draw(kLineStart, {});
  CHECK_FALSE(footer.is_outdated());
  footer.set({"b"});
  CHECK(footer.is_outdated());
  footer.draw(kLineStart, {});
  footer.erase();
  CHECK(footer.is_outdated());
  footer.set({});
  CHECK_FALSE(footer.is_outdated());
}

TEST_CASE("footer lines are cut to the terminal width and reset their colours") {
  CHECK(footer_of({"日本語"}).draw(kLineStart, {5, 24}) == "\r\x1b[J日本\r");
  CHECK(footer_of({"\x1b[1mab"}).draw(kLineStart, {80, 24}) == "\r\x1b[J\x1b[1mab\x1b[0m\r");
  CHECK(footer_of({"a", "b", "c"}).draw(kLineStart, {80, 3}) == "\r\x1b[Ja\r\nb\x1b[1A\r");
  CHECK(footer_of({"a"}).draw(kLineStart, {80, 1}).empty());
  CHECK(footer_of({"a"}).draw({false, 0}, {80, 2}).empty());
}

TEST_CASE("no footer is drawn if the cursor position is unknown") {
  CHECK(footer_of({"a"}).draw({false, std::nullopt}, {}).empty());
  CHECK(footer_of({"a"}).draw({false, 80}, {80, 24}).empty());  // the line has wrapped
}

TEST_CASE("the number of footer lines is limited") {
  Footer footer = footer_of(std::vector<std::string>(5000, std::string(100'000, 'x')));
  const std::string bytes = footer.draw(kLineStart, {100'000, 100'000});
  CHECK(bytes.size() < ddp::limits::kFooterLines * (ddp::limits::kFooterLineBytes + 2) + 100);
}

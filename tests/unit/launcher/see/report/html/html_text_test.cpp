#include "launcher/see/report/html/html_text.h"

#include <limits>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("text from outside cannot break out of its place in the page") {
  CHECK(html_text("</script><b a=\"x\" c='y'>&amp;") ==
        "&lt;/script&gt;&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;amp;");
  CHECK(html_text("a\nb\x1b[31m\xff") == "a\\x0ab\\x1b[31m\\xff");
  CHECK(html_text("caf\xc3\xa9 \xe4\xb8\xad") == "caf\xc3\xa9 \xe4\xb8\xad");
  CHECK(html_text("\xe2\x80\xa8\xe2\x80\xae") == "\\xe2\\x80\\xa8\\xe2\\x80\\xae");  // U+2028, and a mark of direction
  CHECK(html_lines(std::vector<std::string>{"<", "b"}) == "&lt;\nb\n");
}

TEST_CASE("a JSON string cannot close the script element that contains it") {
  CHECK(json_text("</script><!--&\"\\") == R"("\u003c/script\u003e\u003c!--\u0026\"\\")");
  CHECK(json_text("\xe2\x80\xa8\n\xff") == R"("\\xe2\\x80\\xa8\\x0a\\xff")");
}

TEST_CASE("numbers are shown with a suitable unit") {
  CHECK(seconds_text(0) == "0 s");
  CHECK(seconds_text(310e-6) == "310 µs");
  CHECK(seconds_text(1.5e-3) == "1.50 ms");
  CHECK(seconds_text(0.0421) == "42.1 ms");
  CHECK(seconds_text(0.1234) == "123 ms");
  CHECK(seconds_text(3.21) == "3.2 s");
  CHECK(seconds_text(192) == "3 min 12 s");
  CHECK(seconds_text(1e300) != "");
  CHECK(seconds_text(std::numeric_limits<double>::quiet_NaN()) == "–");
  CHECK(rate_text(12.34e9) == "12.3 GB/s");
  CHECK(rate_text(5e6) == "5 MB/s");
  CHECK(rate_text(1500) == "1.5 kB/s");
  CHECK(share_text(1, 0) == "–");
  CHECK(share_text(1, 3) == "33 %");
  CHECK(share_text(1, 1000) == "0.1 %");
  CHECK(plain_number(12.5) == "12.5");
  CHECK(plain_number(100) == "100");
}

TEST_CASE("the header of a table marks the columns that hold numbers") {
  CHECK(table_head(std::vector<std::string_view>{"#rank", "<node>"}) ==
        "<thead><tr><th scope=col class=n>rank</th><th scope=col>&lt;node&gt;</th></tr></thead>\n");
}

TEST_CASE("ranks link to their rows unless there are many") {
  CHECK(rank_links(std::vector<int>{3}) == "<a href=\"#rank-3\">rank 3</a>");
  CHECK(rank_links(std::vector<int>{0, 3}) == "ranks <a href=\"#rank-0\">0</a>, <a href=\"#rank-3\">3</a>");
  std::vector<int> many;
  for (int rank = 0; rank < 100; ++rank) many.push_back(rank);
  CHECK(rank_links(many) == "ranks 0-99");
}

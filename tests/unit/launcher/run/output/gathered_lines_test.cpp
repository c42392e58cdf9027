#include "launcher/run/output/gathered_lines.h"

#include <string>

#include "launcher/run/output/output_pump.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

class Shown {
 public:
  GatheredLines lines{[this](int which, std::string_view line) { text += std::to_string(which) + std::string(line); }};
  std::string text;
};

}  // namespace

TEST_CASE("pieces of output from several nodes are joined to whole lines") {
  Shown shown;
  shown.lines.feed(1, kStdout, "[a 0] one\n[a 0] t");
  shown.lines.feed(2, kStdout, "[b 1] three\n");
  shown.lines.feed(1, kStderr, "[a 0] error\n");
  shown.lines.feed(1, kStdout, "wo\n");
  CHECK(shown.text == "0[a 0] one\n0[b 1] three\n1[a 0] error\n0[a 0] two\n");
}

TEST_CASE("a line without a newline is ended after a pause") {
  Shown shown;
  shown.lines.feed(1, kStdout, "[a 0] no end");
  CHECK(shown.text.empty());
  shown.lines.finish();
  CHECK(shown.text == "0[a 0] no end\n");
  shown.lines.finish();
  CHECK(shown.text == "0[a 0] no end\n");
}

TEST_CASE("only the last state of a progress bar is forwarded") {
  Shown shown;
  shown.lines.feed(1, kStdout, "10 %\r20 %\r");
  shown.lines.feed(1, kStdout, "100 %\r\ndone\n");
  CHECK(shown.text == "0100 %\n0done\n");
}

TEST_CASE("a line without end is cut") {
  Shown shown;
  shown.lines.feed(1, kStdout, std::string(3 * ddp::limits::kLineBytes, 'x'));
  CHECK(shown.text.size() > 2 * ddp::limits::kLineBytes);
}

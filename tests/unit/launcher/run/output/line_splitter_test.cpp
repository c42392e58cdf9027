#include "launcher/run/output/line_splitter.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "launcher/run/output/output_pump.h"
#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp::launcher;

namespace {

// Writes "text|" for a whole line, "+" before the continuation of a line, and "~" after a part that continues.
class Lines {
 public:
  explicit Lines(std::size_t longest = ddp::limits::kLineBytes) : splitter_(longest) {}

  Lines& feed(const std::string& bytes) {
    splitter_.feed(bytes, sink());
    return *this;
  }
  Lines& settle() {
    splitter_.settle(sink());
    return *this;
  }
  Lines& show_unfinished() {
    splitter_.show_unfinished(sink());
    return *this;
  }
  Lines& finish() {
    splitter_.finish(sink());
    return *this;
  }
  // Returns what was emitted since the last call.
  std::string seen() { return std::exchange(seen_, ""); }
  const std::string& all() const { return all_; }
  std::size_t longest_piece() const { return longest_piece_; }

 private:
  std::function<void(const LinePiece&)> sink() {
    return [this](const LinePiece& piece) {
      seen_ += (piece.begins ? "" : "+") + std::string(piece.text) + (piece.ends ? "|" : "~");
      all_ += piece.text;
      longest_piece_ = std::max(longest_piece_, piece.text.size());
    };
  }

  LineSplitter splitter_;
  std::string seen_;
  std::string all_;
  std::size_t longest_piece_ = 0;
};

}  // namespace

TEST_CASE("lines end with a newline, a carriage return, or both") {
  CHECK(Lines().feed("a\nb\r\nc\rd\n\n").seen() == "a\n|b\r\n|c\r|d\n|\n|");
}

TEST_CASE("a line may arrive in any number of chunks") {
  Lines lines;
  CHECK(lines.feed("he").feed("ll").seen() == "");
  CHECK(lines.feed("o\nwor").seen() == "hello\n|");
  CHECK(lines.feed("ld\n").seen() == "world\n|");
}

TEST_CASE("a carriage return and a newline in two chunks are one line end") {
  Lines lines;
  CHECK(lines.feed("a\r").seen() == "");
  CHECK(lines.feed("\nb\n").seen() == "a\r\n|b\n|");
  CHECK(lines.feed("c\r").feed("d\n").seen() == "c\r|d\n|");
}

TEST_CASE("a progress bar is shown without waiting for its next update") {
  Lines lines;
  CHECK(lines.feed("10%\r").settle().seen() == "10%\r|");
  CHECK(lines.feed("20%\r").settle().seen() == "20%\r|");
  // The newline was late.
  CHECK(lines.feed("\nx\n").seen() == "+\n|x\n|");
  CHECK(lines.feed("30%\r").settle().feed("x\n\n").seen() == "30%\r|x\n|\n|");
}

TEST_CASE("a line that is too long is passed on in parts without loss") {
  Lines lines(4);
  CHECK(lines.feed("abcdefghij\nx\n").seen() == "abcd~+efgh~+ij\n|x\n|");
  CHECK(lines.feed("abc").feed("defgh").feed("ij\n").seen() == "abcd~+efgh~+ij\n|");
  CHECK(lines.feed("abcd\n").seen() == "abcd~+\n|");
}

TEST_CASE("an unfinished line can be shown, and later text continues it") {
  Lines lines;
  CHECK(lines.feed("Name? ").show_unfinished().seen() == "Name? ~");
  CHECK(lines.show_unfinished().seen() == "");
  CHECK(lines.feed("Ada\nx\n").seen() == "+Ada\n|x\n|");
}

TEST_CASE("an unfinished line gets a newline at the end") {
  CHECK(Lines().feed("a\nb").finish().seen() == "a\n|b\n|");
  CHECK(Lines().feed("b").show_unfinished().finish().seen() == "b~+\n|");
  CHECK(Lines().feed("a\n").finish().seen() == "a\n|");
  CHECK(Lines().feed("a\r").finish().seen() == "a\r|");
  CHECK(Lines().finish().seen() == "");
}

TEST_CASE("the pieces together equal the stream, however it is divided") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string alphabet("ab\n\r\r\n\0\xff", 8);
  for (int round = 0; round < 2000; ++round) {
    std::string stream(below(60), '\0');
    for (char& byte : stream) byte = alphabet[below(alphabet.size())];
    const std::size_t longest = 1 + below(8);
    Lines lines(longest);
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t size = std::min(1 + below(9), stream.size() - at);
      lines.feed(stream.substr(at, size));
      at += size;
      if (below(4) == 0) lines.settle();
      if (below(8) == 0) lines.show_unfinished();
    }
    lines.finish();
    const std::string all = lines.all();
    REQUIRE(all.substr(0, stream.size()) == stream);
    REQUIRE((all.size() == stream.size() || all.substr(stream.size()) == "\n"));
    REQUIRE(lines.longest_piece() <= longest + 1);
  }
}

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

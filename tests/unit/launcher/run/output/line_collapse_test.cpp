#include "launcher/run/output/line_collapse.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/text.h"
#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

class Ranks {
 public:
  explicit Ranks(int ranks, LineCollapse::Bounds bounds = {})
      : lines_(ranks, bounds, [this](const OutputLine& line) { emitted(line); }) {
    for (int rank = 0; rank < ranks; ++rank) lines_.enter(rank);
  }

  Ranks& say(int rank, const std::string& text) {
    const std::string line = text + "\n";
    lines_.say(rank, rank, {line, true, true}, now_);
    return *this;
  }
  Ranks& say_part(int rank, const std::string& text, bool begins, bool ends) {
    lines_.say(rank, rank, {text, begins, ends}, now_);
    return *this;
  }
  Ranks& passes(std::chrono::milliseconds time) {
    now_ += time;
    lines_.emit_due(now_);
    return *this;
  }
  Ranks& leaves(int rank) {
    lines_.leave(rank);
    return *this;
  }
  Ranks& emit_all() {
    lines_.emit_all();
    return *this;
  }
  // Returns what was shown since the last call, such as "0-2:text 1:text".
  std::string shown() { return std::exchange(shown_, ""); }
  const std::vector<std::vector<std::string>>& by_rank() const { return by_rank_; }
  std::optional<OutputTime> due() const { return lines_.due(); }
  OutputTime now() const { return now_; }

 private:
  void emitted(const OutputLine& line) {
    const std::vector<int> ranks = line.times > 1 ? ranks_of(line.ranks) : std::vector{line.local_rank};
    CHECK(ranks.size() == static_cast<std::size_t>(line.times));
    std::string text(line.piece.text);
    if (!text.empty() && text.back() == '\n') text.pop_back();
    shown_ += (shown_.empty() ? "" : " ") + ddp::base::short_rank_list(ranks) + ":" + text;
    for (const int rank : ranks) {
      by_rank_.resize(std::max(by_rank_.size(), static_cast<std::size_t>(rank) + 1));
      by_rank_[static_cast<std::size_t>(rank)].push_back(text);
    }
  }

  OutputTime now_{};
  std::string shown_;
  std::vector<std::vector<std::string>> by_rank_;
  LineCollapse lines_;
};

}  // namespace

TEST_CASE("an identical line of all ranks is shown once and immediately") {
  Ranks ranks(3);
  CHECK(ranks.say(0, "a").say(1, "a").shown() == "");
  CHECK(ranks.say(2, "a").shown() == "0-2:a");
  CHECK_FALSE(ranks.due());
}

TEST_CASE("an identical line of some ranks is shown once when the window ends") {
  Ranks ranks(4);
  ranks.say(3, "a").say(1, "a");
  CHECK(ranks.due() == ranks.now() + 200ms);
  CHECK(ranks.passes(199ms).shown() == "");
  CHECK(ranks.passes(1ms).shown() == "1,3:a");
  CHECK(ranks.say(0, "a").passes(200ms).shown() == "0:a");
}

TEST_CASE("the lines of a rank keep their order") {
  Ranks ranks(2);
  ranks.say(0, "a").say(0, "b").say(1, "b").say(1, "a");
  // Rank 1 has printed b before a, so its a is a different line.
  CHECK(ranks.emit_all().shown() == "0:a 0-1:b 1:a");
}

TEST_CASE("a line of all ranks also releases the lines before it") {
  Ranks ranks(2);
  CHECK(ranks.say(0, "a").say(0, "b").say(0, "c").say(1, "b").shown() == "0:a 0-1:b");
  CHECK(ranks.emit_all().shown() == "0:c");
}

TEST_CASE("earlier lines of single ranks do not prevent later lines from being merged") {
  Ranks ranks(3);
  ranks.say(0, "I am 0").say(0, "hello").say(1, "I am 1").say(1, "and more").say(1, "hello");
  ranks.say(2, "I am 2").say(2, "hello");
  CHECK(ranks.shown() == "0:I am 0 1:I am 1 1:and more 2:I am 2 0-2:hello");
  CHECK_FALSE(ranks.due());
}

TEST_CASE("a line that was moved to the front can still be merged") {
  Ranks ranks(3);
  ranks.say(0, "c").say(1, "b").say(1, "c").say(2, "b").say(2, "c");
  CHECK(ranks.shown() == "1-2:b 0-2:c");
}

TEST_CASE("a line that a rank repeats is shown each time") {
  Ranks ranks(2);
  ranks.say(0, "a").say(0, "a").say(0, "a").say(1, "a").say(1, "a");
  CHECK(ranks.emit_all().shown() == "0-1:a 0-1:a 0:a");
}

TEST_CASE("lines do not wait for a rank that has exited") {
  Ranks ranks(3);
  CHECK(ranks.say(0, "a").say(1, "a").leaves(2).shown() == "0-1:a");
  CHECK(ranks.say(0, "b").say(1, "b").shown() == "0-1:b");
  // Rank 1 may also print c, until it prints something else.
  CHECK(ranks.say(0, "c").leaves(0).shown() == "");
  CHECK(ranks.say(1, "d").shown() == "0:c 1:d");
}

TEST_CASE("the last lines of an exited rank can still be merged with those of other ranks") {
  Ranks ranks(3);
  ranks.say(0, "a").leaves(0);
  CHECK(ranks.say(1, "a").shown() == "");
  CHECK(ranks.say(2, "a").shown() == "0-2:a");
}

TEST_CASE("partial lines keep their place and are never merged") {
  Ranks ranks(2);
  ranks.say(0, "a").say_part(0, "x", true, false).say_part(1, "x", true, false).say_part(0, "y\n", false, true);
  CHECK(ranks.emit_all().shown() == "0:a 0:x 1:x 0:y");
}

TEST_CASE("the number of waiting lines is bounded") {
  Ranks lines(2, {4, 1000, 200ms});
  for (const char* text : {"a", "b", "c", "d", "e"}) lines.say(0, text);
  CHECK(lines.shown() == "0:a");
  Ranks bytes(2, {100, 10, 200ms});
  CHECK(bytes.say(0, "1234").say(0, "5678").shown() == "");
  CHECK(bytes.say(0, "x").shown() == "0:1234");
  CHECK(bytes.say(0, std::string(50, 'y')).shown() == "0:5678 0:x");
  CHECK(bytes.emit_all().shown() == "0:" + std::string(50, 'y'));
}

TEST_CASE("every line of every rank is shown once and in order for random output") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 100; ++round) {
    const int size = 2 + below(70);
    Ranks ranks(size, {static_cast<std::size_t>(1 + below(600)), static_cast<std::size_t>(1 + below(3000)), 200ms});
    std::vector<std::vector<std::string>> said(static_cast<std::size_t>(size));
    std::vector<char> gone(static_cast<std::size_t>(size));
    for (int step = 0; step < 1000; ++step) {
      const int rank = below(size);
      const auto index = static_cast<std::size_t>(rank);
      if (gone[index] != 0) continue;
      if (below(300) == 0) {
        ranks.leaves(rank);
        gone[index] = 1;
        continue;
      }
      said[index].push_back("line " + std::to_string(below(1 + step / 50)));
      ranks.say(rank, said[index].back());
      if (below(50) == 0) ranks.passes(100ms);
    }
    ranks.emit_all();
    auto shown = ranks.by_rank();
    shown.resize(said.size());
    REQUIRE(shown == said);
  }
}

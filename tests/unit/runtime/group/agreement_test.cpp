#include "runtime/group/agreement.h"

#include "support/catch.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Returns the disagreement that each rank gets if rank r has the r-th text.
std::vector<std::optional<std::string>> disagreements(const std::vector<std::string>& texts) {
  std::vector<std::optional<std::string>> result(texts.size());
  GlooRanks(static_cast<int>(texts.size())).all_succeed([&](GlooRanks::Rank& self) {
    const auto rank = static_cast<std::size_t>(self.rank());
    result[rank] = first_disagreement(self.group(), texts[rank], "texts");
  });
  return result;
}

void all_ranks_get(const std::vector<std::string>& texts, const std::optional<std::string>& expected) {
  for (const auto& answer : disagreements(texts)) CHECK(answer == expected);
}

}  // namespace

TEST_CASE("every rank gets the first line in which ranks differ") {
  all_ranks_get({"a\nb\n", "a\nb\n", "a\nc\n"}, "rank 0 has b, rank 2 has c");
  all_ranks_get({"a\n", "x\n", "y\n"}, "rank 0 has a, rank 1 has x");
}

TEST_CASE("a rank with fewer lines has no entry at the difference") {
  all_ranks_get({"a\nb\n", "a\n"}, "rank 0 has b, rank 1 has nothing more");
  all_ranks_get({"", "a\n"}, "rank 0 has nothing more, rank 1 has a");
}

TEST_CASE("equal texts are an agreement") {
  all_ranks_get({"", ""}, std::nullopt);
  all_ranks_get({"a\n", "a\n", "a\n"}, std::nullopt);
  all_ranks_get({"alone"}, std::nullopt);
}

TEST_CASE("a tensor is described by name, type and shape") {
  CHECK(describe({"w", {nullptr, 6, DataType::f64}, {2, 3}}) == "'w' f64[2x3]");
  CHECK(describe({"s", {nullptr, 1, DataType::i32}, {}}) == "'s' i32[]");
}

#include "runtime/ddp/hooks/parameter_state.h"

#include "support/catch.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("the state of parameters moves with them when buckets change, and new parameters start at 0") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    RankThreads(memory.make, 1).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      GradientBucket bucket;
      bucket.stream = placed.stream();
      const CompressionMath math(self.group(), bucket, "test");
      ParameterState state;
      using Names = std::vector<std::string>;
      const auto place = [&](const std::vector<ParameterState::Size>& sizes) {
        return state.place(self.group(), bucket, math, sizes);
      };
      require(place({{"a", 3}, {"b", 2}}) == Names{"a", "b"}, "all are new");
      placed.write(state.at("a"), std::vector<float>{1, 2, 3});
      placed.write(state.at("b"), std::vector<float>{4, 5});
      const void* const before = state.at("a").data;
      require(place({{"a", 3}, {"b", 2}}).empty() && state.at("a").data == before, "nothing moves without a reason");

      require(place({{"c", 2}, {"b", 2}}) == Names{"c"}, "c is new");
      require(place({{"a", 3}}).empty() && state.at("a").data == before, "a stays");
      require(placed.read<float>(state.at("c")) == std::vector<float>(2), "c is 0");
      require(placed.read<float>(state.at("b")) == std::vector<float>{4, 5}, "b has moved");
      require(placed.read<float>(state.at("a")) == std::vector<float>{1, 2, 3}, "a is as before");
      require(place({{"b", 4}}) == Names{"b"}, "b has another size");
      require(placed.read<float>(state.at("b")) == std::vector<float>(4), "b begins anew");
    });
  }
}

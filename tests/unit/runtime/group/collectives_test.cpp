// What collectives compute, over real Gloo.
#include <ddp/process_group.h>

#include <catch2/catch.hpp>

#include <cmath>

#include "support/gloo_ranks.h"

using namespace ddp;
using namespace ddp::test;

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::min, ReduceOp::max};

template <typename T>
T value_at(int rank, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 3 + i) % 7 + 1);
}

template <typename T>
T combined(ReduceOp op, int size, std::size_t i) {
  T result = value_at<T>(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const T next = value_at<T>(rank, i);
    if (op == ReduceOp::sum || op == ReduceOp::average) result = static_cast<T>(result + next);
    if (op == ReduceOp::product) result = static_cast<T>(result * next);
    if (op == ReduceOp::min) result = std::min(result, next);
    if (op == ReduceOp::max) result = std::max(result, next);
  }
  return op == ReduceOp::average ? static_cast<T>(result / static_cast<T>(size)) : result;
}

template <typename T>
void check_all_reduce(ProcessGroup& group, ReduceOp op, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at<T>(group.rank(), i);
  group.all_reduce(values, op).wait();
  for (std::size_t i = 0; i < count; ++i) {
    const auto difference = static_cast<double>(values[i]) - static_cast<double>(combined<T>(op, group.size(), i));
    if (std::abs(difference) < 1e-5) continue;
    require(false, std::string(to_string(op)) + " of " + std::to_string(count) + " elements: element " +
                       std::to_string(i) + " is " + std::to_string(values[i]) + ", wrong by " +
                       std::to_string(difference));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("all_reduce works for every operation and count", "", float, double, std::int32_t, std::int64_t,
                   std::uint8_t) {
  for (const int size : {1, 2, 3, 4}) {
    GlooRanks(size).all_succeed([](GlooRanks::Rank& self) {
      for (const ReduceOp op : kOps) {
        if (op == ReduceOp::average && !std::is_floating_point_v<TestType>) continue;
        for (const std::size_t count : {0, 1, 2, 3, 5, 7, 16, 1001})
          check_all_reduce<TestType>(self.group(), op, count);
      }
    });
  }
}

TEST_CASE("all_reduce works above the size where the algorithm changes") {
  for (const int size : {2, 3}) {
    GlooRanks(size).all_succeed([](GlooRanks::Rank& self) {
      const std::size_t change = (std::size_t{4} << 20) / sizeof(float);
      for (const std::size_t count : {change, change + 7}) {
        check_all_reduce<float>(self.group(), ReduceOp::sum, count);
      }
      check_all_reduce<std::uint8_t>(self.group(), ReduceOp::product, (std::size_t{4} << 20) + 3);
    });
  }
}

TEST_CASE("broadcast gives everyone what its root has") {
  for (const int size : {1, 2, 3, 4}) {
    GlooRanks(size).all_succeed([](GlooRanks::Rank& self) {
      for (int root = 0; root < self.group().size(); ++root) {
        for (const std::size_t count : {0, 1, 3, 1001}) {
          std::vector<std::int64_t> values(count, self.rank());
          self.group().broadcast(values, root).wait();
          require(values == std::vector<std::int64_t>(count, root), "broadcast from " + std::to_string(root));
        }
      }
    });
  }
}

TEST_CASE("all_gather puts the inputs in rank order") {
  for (const int size : {1, 2, 3, 4}) {
    GlooRanks(size).all_succeed([](GlooRanks::Rank& self) {
      const auto ranks = static_cast<std::size_t>(self.group().size());
      for (const std::size_t count : {0, 1, 3, 1001}) {
        std::vector<std::int32_t> input(count, self.rank() + 10);
        std::vector<std::int32_t> output(count * ranks);
        self.group().all_gather(output, input).wait();
        for (std::size_t i = 0; i < output.size(); ++i) {
          require(output[i] == static_cast<std::int32_t>(i / count) + 10, "element " + std::to_string(i));
        }
      }
    });
  }
}

TEST_CASE("bytes of different lengths are gathered on every rank") {
  for (const int size : {1, 2, 3}) {
    GlooRanks(size).all_succeed([](GlooRanks::Rank& self) {
      // Rank 0 has nothing to say.
      const std::string own(static_cast<std::size_t>(self.rank()) * 5, static_cast<char>('a' + self.rank()));
      const std::vector<std::string> all = self.group().all_gather_bytes(own);
      require(all.size() == static_cast<std::size_t>(self.group().size()), "one text a rank");
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        require(all[rank] == std::string(rank * 5, static_cast<char>('a' + rank)), "rank " + std::to_string(rank));
      }
      const std::vector<std::string> nothing = self.group().all_gather_bytes("");
      require(nothing == std::vector<std::string>(all.size()), "nothing from all is nothing for all");
    });
  }
}

TEST_CASE("bytes of the root reach every rank") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    const std::string words("any\0bytes", 9);
    for (int root = 0; root < 3; ++root) {
      require(self.group().broadcast_bytes(self.rank() == root ? words : "own and longer text", root) == words,
              "words");
      require(self.group().broadcast_bytes(self.rank() == root ? "" : "own", root).empty(), "nothing");
    }
  });
}

TEST_CASE("no rank passes a barrier before all have reached it") {
  std::atomic<int> arrived = 0;
  GlooRanks(3).all_succeed([&](GlooRanks::Rank& self) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      self.group().barrier().wait();
      require(arrived >= 3 * round, "round " + std::to_string(round));
      self.group().barrier().wait();
    }
  });
}

TEST_CASE("collectives started together end in order") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    std::vector<std::vector<float>> values;
    for (std::size_t i = 0; i < 20; ++i) values.emplace_back(100 + i, 1.0F);
    std::vector<Work> works;
    for (auto& value : values) works.push_back(self.group().all_reduce(value));
    works.back().wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      require(works[i].done(), "work " + std::to_string(i));
      require(values[i] == std::vector<float>(100 + i, 3.0F), "values " + std::to_string(i));
    }
  });
}

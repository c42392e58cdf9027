// Tests collectives of parts, of bytes, and without data, on every backend.
#include <ddp/process_group.h>

#include <algorithm>
#include <atomic>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("parts may differ in size and lie anywhere") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (const int size : {1, 2, 3, 5}) {
      INFO(backend.name << ", " << size << " ranks");
      RankThreads(backend.make, size).all_succeed([](RankThreads::Rank& self) {
        ProcessGroup& group = self.group();
        const auto ranks = static_cast<std::size_t>(group.size());
        const int rank = group.rank();
        // Rank i has 100 * i elements, so rank 0 has none.
        std::vector<std::vector<std::int32_t>> storage(ranks);
        std::vector<Buffer> outputs;
        for (std::size_t i = 0; i < ranks; ++i) storage[i].resize(100 * i);
        for (auto& part : storage) outputs.emplace_back(part);
        const std::vector<std::int32_t> own(100 * static_cast<std::size_t>(rank), rank);
        group.all_gather(outputs, own).wait();
        for (std::size_t i = 0; i < ranks; ++i) {
          require(storage[i] == std::vector<std::int32_t>(100 * i, static_cast<std::int32_t>(i)), "all_gather");
          std::fill(storage[i].begin(), storage[i].end(), -1);
        }
        const int root = group.size() - 1;
        group.gather(rank == root ? std::span<const Buffer>(outputs) : std::span<const Buffer>(), own, root).wait();
        for (std::size_t i = 0; rank == root && i < ranks; ++i) {
          require(storage[i] == std::vector<std::int32_t>(100 * i, static_cast<std::int32_t>(i)), "gather");
        }
        const std::vector<ConstBuffer> inputs(outputs.begin(), outputs.end());
        std::vector<std::int32_t> received(own.size());
        group
            .scatter(received, rank == root ? std::span<const ConstBuffer>(inputs) : std::span<const ConstBuffer>(),
                     root)
            .wait();
        require(received == own, "scatter");
        // Each rank gives one element more to each rank than to the previous one.
        std::vector<std::vector<std::int32_t>> given(ranks);
        for (std::size_t to = 0; to < ranks; ++to) given[to].assign(to + 1, rank * 10 + static_cast<int>(to));
        const std::vector<ConstBuffer> summands(given.begin(), given.end());
        std::vector<std::int32_t> sum(static_cast<std::size_t>(rank) + 1);
        group.reduce_scatter(sum, summands).wait();
        const int expected = 10 * (group.size() * (group.size() - 1) / 2) + group.size() * rank;
        require(sum == std::vector<std::int32_t>(sum.size(), expected), "reduce_scatter");
        // Rank r gets r + 1 elements from each rank.
        std::vector<std::vector<std::int32_t>> taken(ranks, std::vector<std::int32_t>(sum.size()));
        const std::vector<Buffer> places(taken.begin(), taken.end());
        group.all_to_all(places, summands).wait();
        for (std::size_t from = 0; from < ranks; ++from) {
          require(taken[from] == std::vector<std::int32_t>(sum.size(), static_cast<int>(from) * 10 + rank),
                  "all_to_all");
        }
      });
    }
  }
}

TEST_CASE("reductions of many pieces work even if some ranks have fewer", "[slow]") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (const int size : {2, 3}) {
      INFO(backend.name << ", " << size << " ranks");
      RankThreads(backend.make, size).all_succeed([](RankThreads::Rank& self) {
        ProcessGroup& group = self.group();
        // Rank i gets i * 700,001 elements, so rank 0 gets none.
        const auto value = [](int rank, std::size_t i) { return rank + 1 + static_cast<std::int32_t>(i % 1'000); };
        const auto sum = [&](std::size_t i) {
          std::int32_t result = 0;
          for (int rank = 0; rank < group.size(); ++rank) result += value(rank, i);
          return result;
        };
        std::vector<std::vector<std::int32_t>> given(static_cast<std::size_t>(group.size()));
        for (std::size_t to = 0; to < given.size(); ++to) {
          for (std::size_t i = 0; i < to * 700'001; ++i) given[to].push_back(value(group.rank(), i));
        }
        const std::vector<ConstBuffer> inputs(given.begin(), given.end());
        std::vector<std::int32_t> own(static_cast<std::size_t>(group.rank()) * 700'001);
        group.reduce_scatter(own, inputs).wait();
        for (std::size_t i = 0; i < own.size(); ++i) require(own[i] == sum(i), "reduce_scatter " + std::to_string(i));
        std::vector<std::int32_t> whole(2'900'003);
        for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = value(group.rank(), i);
        const std::vector<std::int32_t> before = whole;
        group.reduce(whole, 1).wait();
        require((whole == before) == (group.rank() != 1), "only the root's buffer changes");
        whole = before;
        group.all_reduce(whole).wait();
        for (std::size_t i = 0; i < whole.size(); ++i) require(whole[i] == sum(i), "all_reduce " + std::to_string(i));
      });
    }
  }
}

TEST_CASE("bytes of different lengths are gathered on every rank") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (const int size : {1, 2, 3}) {
      RankThreads(backend.make, size).all_succeed([](RankThreads::Rank& self) {
        // Rank 0 has an empty text.
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
}

TEST_CASE("bytes of the root reach every rank") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    RankThreads(backend.make, 3).all_succeed([](RankThreads::Rank& self) {
      const std::string words("any\0bytes", 9);
      for (int root = 0; root < 3; ++root) {
        require(self.group().broadcast_bytes(self.rank() == root ? words : "own and longer text", root) == words,
                "words");
        require(self.group().broadcast_bytes(self.rank() == root ? "" : "own", root).empty(), "nothing");
      }
    });
  }
}

TEST_CASE("no rank passes a barrier before all ranks have reached it") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    std::atomic<int> arrived = 0;
    RankThreads(backend.make, 3).all_succeed([&](RankThreads::Rank& self) {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        self.group().barrier().wait();
        require(arrived >= 3 * round, "round " + std::to_string(round));
        self.group().barrier().wait();
      }
    });
  }
}

TEST_CASE("collectives that were started together end in order") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    RankThreads(backend.make, 3).all_succeed([](RankThreads::Rank& self) {
      for (const bool together : {false, true}) {
        std::vector<std::vector<float>> values;
        for (std::size_t i = 0; i < 20; ++i) values.emplace_back(100 + i, 1.0F);
        std::vector<Work> works;
        {
          std::optional<CollectiveBatch> batch;
          if (together) batch.emplace(self.group().batch());
          for (auto& value : values) works.push_back(self.group().all_reduce(value));
        }
        works.back().wait();
        for (std::size_t i = 0; i < values.size(); ++i) {
          require(works[i].done(), "work " + std::to_string(i));
          require(values[i] == std::vector<float>(100 + i, 3.0F), "values " + std::to_string(i));
        }
      }
    });
  }
}

TEST_CASE("a part with different counts on its two ranks is a mismatch with both calls at once") {
  for (const BackendUnderTest& backend : {cpu_near(), cpu_staged(), gloo_backend()}) {
    for (const int operation : {0, 1, 2}) {
      INFO(backend.name << ", operation " << operation);
      std::atomic<int> errors = 0;
      RankThreads(backend.make, 3).all_succeed([&](RankThreads::Rank& self) {
        ProcessGroup& group = self.group();
        const std::size_t own = self.rank() == 2 ? 999 : 1'000;
        std::vector<float> values(own);
        std::vector<float> whole(3 * own);
        std::vector<std::vector<float>> storage(3, std::vector<float>(1'000));
        const std::vector<Buffer> parts(storage.begin(), storage.end());
        const std::vector<ConstBuffer> inputs(storage.begin(), storage.end());
        try {
          if (operation == 0) group.gather(parts, values, 0).wait();
          if (operation == 1) group.scatter(values, inputs, 0).wait();
          if (operation == 2) group.all_to_all(Buffer(whole), whole).wait();
        } catch (const Error& error) {
          const std::string text = error.what();
          if (error.kind() != ErrorKind::mismatch) return;
          require(text.find("999") != std::string::npos && text.find("1000") != std::string::npos, text);
          require(text.find("rank 2 calls") != std::string::npos, text);
          require(text.find("collective_parts_test.cpp:") != std::string::npos, text);
          ++errors;
        }
      });
      CHECK(errors >= 1);
    }
  }
}

#include <ddp/batch_statistics.h>

#include <cmath>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Returns value i of channel c on a rank.
double value(int rank, int c, int i) {
  return 1000 * c + std::sin(rank * 5.0 + i) * (c + 1) + rank;
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <typename Each>
Moments moments_of(const Each& each) {
  double count = 0;
  double sum = 0;
  each([&](double x) { count += 1, sum += x; });
  const double mean = count > 0 ? sum / count : 0;
  double squares = 0;
  each([&](double x) { squares += (x - mean) * (x - mean); });
  return {mean, count > 0 ? squares / count : 0};
}

}  // namespace

TEST_CASE("statistics cover all ranks' values, even if the ranks have different numbers of them") {
  constexpr int kChannels = 3;
  for (const std::vector<int>& counts : {std::vector<int>{5}, {4, 4}, {7, 0, 1}, {0, 0}, {3, 9, 2, 5}}) {
    const auto size = static_cast<int>(counts.size());
    RankThreads(make_cpu_backend, size).all_succeed([&](RankThreads::Rank& self) {
      std::vector<double> mean(kChannels);
      std::vector<double> variance(kChannels);
      const int own = counts[static_cast<std::size_t>(self.rank())];
      double total = 0;
      for (const int count : counts) total += count;
      for (int c = 0; c < kChannels; ++c) {
        const Moments moments = moments_of([&](const auto& take) {
          for (int i = 0; i < own; ++i) take(value(self.rank(), c, i));
        });
        mean[static_cast<std::size_t>(c)] = moments.mean;
        variance[static_cast<std::size_t>(c)] = moments.variance;
      }
      require(synchronize_batch_statistics(self.group(), mean, variance, own) == total, "count");
      for (int c = 0; c < kChannels; ++c) {
        const Moments all = moments_of([&](const auto& take) {
          for (int rank = 0; rank < size; ++rank) {
            for (int i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i) take(value(rank, c, i));
          }
        });
        const auto at = static_cast<std::size_t>(c);
        require(std::abs(mean[at] - all.mean) < 1e-9 * (1 + std::abs(all.mean)), "mean");
        require(std::abs(variance[at] - all.variance) < 1e-9 * (1 + all.variance), "variance");
      }
    });
  }
}

TEST_CASE("the sums for the backward pass cover all ranks") {
  RankThreads(make_cpu_backend, 3).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> dy = {1.0F + static_cast<float>(self.rank()), 2};
    std::vector<float> centered = {10, 20.0F * static_cast<float>(self.rank())};
    synchronize_batch_gradients(self.group(), dy, centered);
    require(dy[0] == 6 && dy[1] == 6 && centered[0] == 30 && centered[1] == 60, "sums");
    std::vector<float> one(1);
    require(outcome_of([&] { synchronize_batch_gradients(self.group(), dy, one); }).kind == ErrorKind::invalid_argument,
            "lengths");
  });
}

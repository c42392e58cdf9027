#include <ddp/batch_statistics.h>
#include <ddp/error.h>

#include <string>
#include <vector>

#include "runtime/call/called_from.h"

namespace ddp {

using namespace internal;

namespace {

void require_same_length(const char* function, std::size_t a, std::size_t b) {
  if (a == b) return;
  throw Error(ErrorKind::invalid_argument, std::string(function) + ": the numbers of channels differ: " +
                                               std::to_string(a) + " and " + std::to_string(b));
}

template <typename T>
double synchronize_statistics(const ProcessGroup& group, std::span<T> mean, std::span<T> variance, double count) {
  require_same_length("synchronize_batch_statistics", mean.size(), variance.size());
  const std::size_t channels = mean.size();
  // `own` holds the count, the means and the variances.
  std::vector<double> own = {count};
  own.insert(own.end(), mean.begin(), mean.end());
  own.insert(own.end(), variance.begin(), variance.end());
  std::vector<double> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(all, own, {.name = "batch statistics"}).wait();

  double total = 0;
  std::vector<double> means(channels);
  std::vector<double> squares(channels);  // sums of the squared distances from the mean
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(group.size()); ++rank) {
    const double* theirs = all.data() + rank * own.size();
    const double added = theirs[0];
    if (added <= 0) continue;
    const double sum = total + added;
    for (std::size_t c = 0; c < channels; ++c) {
      const double distance = theirs[1 + c] - means[c];
      squares[c] += theirs[1 + channels + c] * added + distance * distance * total * added / sum;
      means[c] += distance * added / sum;
    }
    total = sum;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    mean[c] = static_cast<T>(means[c]);
    variance[c] = static_cast<T>(total > 0 ? squares[c] / total : 0);
  }
  return total;
}

template <typename T>
void synchronize_gradients(const ProcessGroup& group, std::span<T> first, std::span<T> second) {
  require_same_length("synchronize_batch_gradients", first.size(), second.size());
  const CallOptions options{.name = "gradients of batch statistics"};
  std::vector<Work> works;
  {
    const CollectiveBatch batch = group.batch();
    works.push_back(group.all_reduce(first, ReduceOp::sum, options));
    works.push_back(group.all_reduce(second, ReduceOp::sum, options));
  }
  for (Work& work : works) work.wait();
}

}  // namespace

double synchronize_batch_statistics(const ProcessGroup& group, std::span<float> mean, std::span<float> variance,
                                    double count, CallSite site) {
  const CalledFrom here(site);
  return synchronize_statistics(group, mean, variance, count);
}
double synchronize_batch_statistics(const ProcessGroup& group, std::span<double> mean, std::span<double> variance,
                                    double count, CallSite site) {
  const CalledFrom here(site);
  return synchronize_statistics(group, mean, variance, count);
}

void synchronize_batch_gradients(const ProcessGroup& group, std::span<float> sum_dy, std::span<float> sum_dy_centered,
                                 CallSite site) {
  const CalledFrom here(site);
  synchronize_gradients(group, sum_dy, sum_dy_centered);
}
void synchronize_batch_gradients(const ProcessGroup& group, std::span<double> sum_dy, std::span<double> sum_dy_centered,
                                 CallSite site) {
  const CalledFrom here(site);
  synchronize_gradients(group, sum_dy, sum_dy_centered);
}

}  // namespace ddp

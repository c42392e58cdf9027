#include "runtime/ddp/bucket_plan.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t align(std::size_t count, DataType type) {
  const std::size_t elements = kAlignment / size_of(type);
  return (count + elements - 1) / elements * elements;
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketLimits& limits) {
  std::vector<Bucket> closed;
  std::vector<Bucket> open;  // at most one a type, in the order of first use
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto [type, count] = parameters[i];
    auto bucket = std::find_if(open.begin(), open.end(), [type = type](const Bucket& b) { return b.type == type; });
    if (bucket == open.end()) bucket = open.insert(open.end(), Bucket{type, 0, {}});
    bucket->slots.push_back({i, bucket->count});
    bucket->count += align(count, type);
    const std::size_t limit = closed.empty() ? limits.first_bytes : limits.bytes;
    if (bucket->count * size_of(type) >= limit) {
      closed.push_back(std::move(*bucket));
      open.erase(bucket);
    }
  }
  std::move(open.begin(), open.end(), std::back_inserter(closed));
  return closed;
}

}  // namespace ddp

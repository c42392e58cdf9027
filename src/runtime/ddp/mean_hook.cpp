// These hooks compute the mean of the gradients without compression: on every rank, or of each rank's own share.
#include <ddp/extension/communication_hook.h>
#include <ddp/reduce_op.h>

#include "runtime/call/call.h"
#include "runtime/ddp/element_math.h"
#include "runtime/ddp/parameter_shards.h"

namespace ddp {

using namespace internal;

namespace {

// Returns the parts of a range that the ranks own.
std::vector<ConstBuffer> shares_of(const Buffer& range, std::size_t ranks) {
  std::vector<ConstBuffer> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank) shares.emplace_back(share_of(range, rank, ranks));
  return shares;
}

class MeanHook : public CommunicationHook {
 public:
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    Communication result;
    std::optional<CollectiveBatch> batch;
    if (bucket.ranges.size() > 1) batch.emplace(group.batch());
    for (const Buffer& range : bucket.ranges) {
      const ReduceOp op = prepare_mean(group, range, bucket.factor, bucket.stream);
      result.works.push_back(group.all_reduce(range, op, {.name = bucket.name, .stream = bucket.stream}));
      result.bytes += range.bytes();
    }
    return result;
  }
};

class ShardHook : public CommunicationHook {
 public:
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    const auto ranks = static_cast<std::size_t>(group.size());
    Communication result;
    for (const Buffer& range : bucket.ranges) {
      const ReduceOp op = prepare_mean(group, range, bucket.factor, bucket.stream);
      const CallOptions options{.name = bucket.name, .stream = bucket.stream};
      const Buffer own = share_of(range, static_cast<std::size_t>(group.rank()), ranks);
      // NCCL reduces and scatters equal shares with one operation, and others with one operation per rank.
      const bool are_equal = share_of(range, ranks - 1, ranks).count * ranks == range.count;
      result.works.push_back(are_equal ? group.reduce_scatter(own, range, op, options)
                                       : group.reduce_scatter(own, shares_of(range, ranks), op, options));
      result.bytes += range.bytes();
    }
    return result;
  }
};

}  // namespace

CommunicationHook::~CommunicationHook() = default;

std::size_t CommunicationHook::finish(const ProcessGroup&, const GradientBucket&) {
  return 0;
}

std::shared_ptr<CommunicationHook> make_mean_hook() {
  return std::make_shared<MeanHook>();
}

std::shared_ptr<CommunicationHook> internal::make_shard_hook() {
  return std::make_shared<ShardHook>();
}

}  // namespace ddp

// These hooks compute the mean of the gradients without compression: on every rank, or of each rank's own share.
#include <ddp/extension/communication_hook.h>
#include <ddp/reduce_op.h>

#include "runtime/call/call.h"
#include "runtime/ddp/hooks/shard_hook.h"

namespace ddp {

using namespace internal;

namespace {

// Returns the reduction that computes a bucket's mean. A plain average is bit-identical to ReduceOp::average.
ReduceOp bucket_mean(const GradientBucket& bucket, int size) {
  return bucket.factor == 1.0 / size ? ReduceOp(ReduceOp::average) : ReduceOp::premultiplied(bucket.factor);
}

class MeanHook : public CommunicationHook {
 public:
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    const ReduceOp op = bucket_mean(bucket, group.size());
    Communication result;
    std::optional<CollectiveBatch> batch;
    if (bucket.ranges.size() > 1) batch.emplace(group.batch());
    for (const Buffer& range : bucket.ranges) {
      result.works.push_back(group.all_reduce(range, op, {.name = bucket.name, .stream = bucket.stream}));
      result.bytes += range.bytes();
    }
    return result;
  }
};

class ShardHook : public CommunicationHook {
 public:
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    const ReduceOp op = bucket_mean(bucket, group.size());
    const auto ranks = static_cast<std::size_t>(group.size());
    Communication result;
    for (const Buffer& range : bucket.ranges) {
      std::vector<ConstBuffer> shares;
      for (std::size_t rank = 0; rank < ranks; ++rank) shares.emplace_back(share_of(range, rank, ranks));
      result.works.push_back(group.reduce_scatter(share_of(range, static_cast<std::size_t>(group.rank()), ranks),
                                                  shares, op, {.name = bucket.name, .stream = bucket.stream}));
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

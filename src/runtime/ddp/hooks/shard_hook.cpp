#include "runtime/ddp/hooks/shard_hook.h"

#include "runtime/call/call.h"
#include "runtime/ddp/hooks/bucket_mean.h"

namespace ddp::internal {
namespace {

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

std::shared_ptr<CommunicationHook> make_shard_hook() {
  return std::make_shared<ShardHook>();
}

}  // namespace ddp::internal

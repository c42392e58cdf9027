#include "runtime/ddp/hooks/shard_hook.h"

#include "runtime/ddp/hooks/bucket_mean.h"
#include "runtime/ddp/parameter_shards.h"

namespace ddp::internal {
namespace {

class ShardHook : public CommunicationHook {
 public:
  Communication start(ProcessGroup& group, const GradientBucket& bucket) override {
    const ReduceOp op = bucket_mean(bucket, group.size());
    Communication result;
    for (const Buffer& range : bucket.ranges) {
      std::vector<ConstBuffer> shares;
      for (int rank = 0; rank < group.size(); ++rank) shares.emplace_back(share(range, rank, group.size()));
      result.works.push_back(group.reduce_scatter(share(range, group.rank(), group.size()), shares, op,
                                                  {.timeout = {}, .name = bucket.name, .stream = bucket.stream}));
      result.bytes += range.bytes();
    }
    return result;
  }

 private:
  static Buffer share(const Buffer& range, int rank, int size) {
    const ArenaRange part = share_of(range.count, range.type, rank, size);
    return range.slice(part.first, part.count);
  }
};

}  // namespace

std::shared_ptr<CommunicationHook> make_shard_hook() {
  return std::make_shared<ShardHook>();
}

}  // namespace ddp::internal

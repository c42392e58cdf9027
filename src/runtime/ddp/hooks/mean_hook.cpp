#include <ddp/extension/communication_hook.h>

#include "runtime/ddp/hooks/bucket_mean.h"

namespace ddp {

using namespace internal;

namespace {

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

}  // namespace

CommunicationHook::~CommunicationHook() = default;

std::size_t CommunicationHook::finish(const ProcessGroup&, const GradientBucket&) {
  return 0;
}

std::shared_ptr<CommunicationHook> make_mean_hook() {
  return std::make_shared<MeanHook>();
}

}  // namespace ddp

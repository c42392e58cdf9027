#include <ddp/communication_hook.h>

#include "runtime/ddp/hooks/bucket_mean.h"

namespace ddp {

using namespace internal;

namespace {

class MeanHook : public CommunicationHook {
 public:
  Communication start(ProcessGroup& group, const GradientBucket& bucket) override {
    const ReduceOp op = bucket_mean(bucket, group.size());
    Communication result;
    const bool several = bucket.ranges.size() > 1;
    if (several) group.group_start();
    for (const Buffer& range : bucket.ranges) {
      result.works.push_back(
          group.all_reduce(range, op, {.timeout = {}, .name = bucket.name, .stream = bucket.stream}));
      result.bytes += range.bytes();
    }
    if (several) group.group_end();
    return result;
  }
};

}  // namespace

CommunicationHook::~CommunicationHook() = default;

std::size_t CommunicationHook::finish(ProcessGroup&, const GradientBucket&) {
  return 0;
}

std::shared_ptr<CommunicationHook> make_mean_hook() {
  return std::make_shared<MeanHook>();
}

}  // namespace ddp

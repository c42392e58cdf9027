// This file is for hooks that compute on the host.
#pragma once

#include <ddp/error.h>
#include <ddp/extension/communication_hook.h>

#include <string>

namespace ddp::internal {

// Throws `unavailable` if the bucket is in GPU memory.
inline void require_host(const GradientBucket& bucket, const std::string& hook) {
  if (bucket.ranges.empty() || bucket.ranges.front().device == DeviceType::cpu) return;
  throw Error(ErrorKind::unavailable, "the " + hook +
                                          " hook computes in host memory, but these gradients are in GPU memory. "
                                          "Remove the hook, or write a CommunicationHook with your own kernels");
}

}  // namespace ddp::internal

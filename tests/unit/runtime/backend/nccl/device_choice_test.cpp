#include "runtime/backend/nccl/device_choice.h"

#include <memory>
#include <string>

#include "support/catch.h"
#include "support/gpu_libraries.h"

using ddp::internal::probe_device;

namespace {

ddp::internal::CudaApi cuda_with(int devices, ddp::internal::CudaStatus status = ddp::internal::kCudaSuccess) {
  ddp::internal::CudaApi cuda = ddp::test::gpu_libraries()->cuda;
  ddp::test::replace(cuda.device_count, [=](int& count) {
    count = devices;
    return status;
  });
  return cuda;
}

}  // namespace

TEST_CASE("GPUs that cannot be counted are an obstacle with CUDA's error name") {
  CHECK(probe_device(0, cuda_with(0, 100), "node0", false).obstacle ==
        "no NVIDIA GPU is visible here (CUDA_ERROR_NO_DEVICE)");
}

TEST_CASE("having no visible GPU is an obstacle") {
  CHECK(probe_device(0, cuda_with(0), "node0", false).obstacle == "no NVIDIA GPU is visible here");
}

TEST_CASE("a local rank beyond the visible GPUs is an obstacle") {
  CHECK(probe_device(2, cuda_with(2), "node0", false).obstacle == "there is no GPU for local rank 2 (visible GPUs: 2)");
}

TEST_CASE("a probe identifies the GPU so that two ranks on the same GPU are found") {
  const auto device = [](int local_rank, int devices, const char* host) {
    return probe_device(local_rank, cuda_with(devices), host, false).device;
  };
  CHECK(device(5, 1, "node0") == device(0, 1, "node0"));
  CHECK(device(3, 4, "node0") != device(2, 4, "node0"));
  CHECK(device(3, 4, "node0") == device(3, 4, "a container of this node"));
}

TEST_CASE("a driver without UUIDs identifies the GPU by node and address") {
  ddp::internal::CudaApi cuda = cuda_with(4);
  cuda.get_uuid = nullptr;
  CHECK(probe_device(3, cuda, "node0", false).device == "node0/0000:03:00.0");
}

TEST_CASE("the GPU of a rank is shown on the status page") {
  constexpr ddp::internal::CudaUuid kUuid = {0x5f, 0x1c, 0x0a, 0x2b, 0x01, 0x23, 0x45, 0x67,
                                             0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x63};
  const auto page = std::make_unique<ddp::wire::StatusPageLayout>();
  const auto show = [&](ddp::internal::CudaStatus status) {
    ddp::internal::CudaApi cuda = cuda_with(4);
    ddp::test::replace(cuda.get_uuid, [=](ddp::internal::CudaUuid& uuid, int) {
      uuid = kUuid;
      return status;
    });
    ddp::internal::show_device(cuda, 3, *page);
    return probe_device(3, cuda, "node0", false).device;
  };
  CHECK(show(1) == "node0/0000:03:00.0");
  CHECK(page->has_gpu_uuid == 0);
  CHECK(show(ddp::internal::kCudaSuccess) == "5f1c0a2b-0123-4567-89ab-cdef01234563");
  CHECK(page->has_gpu_uuid == 1);
  CHECK(page->gpu_uuid == kUuid);
  ddp::internal::CudaApi old = cuda_with(4);
  old.get_uuid = nullptr;
  ddp::internal::show_device(old, 3, *page);
}

TEST_CASE("a probe does not identify the GPU if ranks may share one") {
  const ddp::internal::ProbeResult result = probe_device(0, cuda_with(1), "node0", true);
  CHECK(result.obstacle.empty());
  CHECK(result.device.empty());
}

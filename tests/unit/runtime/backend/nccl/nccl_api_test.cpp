#include "runtime/backend/nccl/nccl_api.h"

#include <cstdlib>
#include <string>

#include "runtime/backend/nccl/cuda_api.h"
#include "support/catch.h"
#include "support/paths.h"

using Catch::Contains;
using ddp::internal::CudaApi;
using ddp::internal::NcclApi;

TEST_CASE("versions of NCCL are printed in the usual form") {
  CHECK(ddp::internal::nccl_version_text(22907) == "2.29.7");
  CHECK(ddp::internal::nccl_version_text(21903) == "2.19.3");
}

TEST_CASE("a missing or foreign library is an obstacle with the reason") {
  CHECK_THAT(NcclApi("/nowhere/libnccl.so.2").obstacle(), Contains("LD_LIBRARY_PATH"));
  CHECK_THAT(NcclApi("libm.so.6").obstacle(), Contains("it has no ncclGetVersion"));
  CHECK(CudaApi("/nowhere/libcuda.so.1").obstacle() == "no NVIDIA driver is installed here");
  CHECK_THAT(CudaApi("libm.so.6").obstacle(), Contains("it has no cuInit"));
}

TEST_CASE("an NCCL version that is too old is rejected with the required version") {
  ::setenv("FAKE_NCCL_VERSION", "21805", 1);
  const NcclApi old((ddp::test::fake_gpu_directory() + "/libnccl.so.2").c_str());
  ::unsetenv("FAKE_NCCL_VERSION");
  CHECK(old.obstacle() == "NCCL 2.18.5 is too old; 2.19.0 or newer is needed");
}

// Another thread may read the environment.
TEST_CASE("a driver is opened without a change of the environment") {
  const char* before = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const std::string kept = before == nullptr ? "" : before;
  ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  CHECK(CudaApi((ddp::test::fake_gpu_directory() + "/libcuda.so.1").c_str()).obstacle().empty());
  CHECK(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") == nullptr);
  if (!kept.empty()) ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", kept.c_str(), 1);
}

TEST_CASE("a driver without GPUs fails to start") {
  ::setenv("FAKE_GPU_COUNT", "0", 1);
  const CudaApi none((ddp::test::fake_gpu_directory() + "/libcuda.so.1").c_str());
  ::unsetenv("FAKE_GPU_COUNT");
  CHECK_THAT(none.obstacle(), Contains("CUDA_ERROR_NO_DEVICE"));
}

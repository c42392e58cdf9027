// libddp_nccl.so: the only file that includes NCCL and CUDA. It fills the two tables and hands out the plug-in's.
#include <ddp/version.h>

#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/backend/nccl/device_choice.h"
#include "runtime/backend/nccl/nccl_backend.h"
#include "runtime/backend/plugin.h"

namespace ddp {
namespace {

static_assert(ncclSuccess == static_cast<int>(NcclResult::success));
static_assert(ncclUnhandledCudaError == static_cast<int>(NcclResult::unhandled_cuda_error));
static_assert(ncclSystemError == static_cast<int>(NcclResult::system_error));
static_assert(ncclInternalError == static_cast<int>(NcclResult::internal_error));
static_assert(ncclInvalidArgument == static_cast<int>(NcclResult::invalid_argument));
static_assert(ncclInvalidUsage == static_cast<int>(NcclResult::invalid_usage));
static_assert(ncclRemoteError == static_cast<int>(NcclResult::remote_error));
static_assert(ncclInProgress == static_cast<int>(NcclResult::in_progress));
static_assert(sizeof(ncclUniqueId) == std::tuple_size_v<NcclUniqueId>);
static_assert(cudaSuccess == kCudaSuccess);
static_assert(cudaErrorNotReady == kCudaNotReady);

NcclResult ours(ncclResult_t result) {
  return static_cast<NcclResult>(result);
}
ncclComm_t theirs(NcclComm comm) {
  return static_cast<ncclComm_t>(comm);
}
cudaStream_t stream_of(CudaStreamHandle stream) {
  return static_cast<cudaStream_t>(stream);
}

// NCCL has no 16-bit integers: it refuses ncclNumTypes.
ncclDataType_t theirs(DataType type) {
  constexpr std::array<ncclDataType_t, kDataTypes.size()> kTypes = {ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64,
                                                                    ncclInt8,    ncclNumTypes, ncclInt32,   ncclInt64,
                                                                    ncclUint8,   ncclUint8};
  return kTypes[static_cast<std::size_t>(type)];
}

ncclRedOp_t theirs(ReduceOp op) {
  switch (op.kind) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::average:
      return ncclAvg;
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    default:
      return ncclNumOps;  // NCCL refuses it
  }
}

NcclResult init_rank(NcclComm& comm, int size, const NcclUniqueId& id, int rank) {
  ncclUniqueId unique_id;
  std::memcpy(&unique_id, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Only a non-blocking communicator can be aborted safely.
  config.blocking = 0;
  config.commName = "ddplaunch";
  ncclComm_t made = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&made, size, unique_id, rank, &config);
  comm = made;
  return ours(result);
}

NcclApi real_nccl() {
  NcclApi api;
  api.get_unique_id = [](NcclUniqueId& id) {
    ncclUniqueId unique_id;
    const ncclResult_t result = ncclGetUniqueId(&unique_id);
    std::memcpy(id.data(), &unique_id, id.size());
    return ours(result);
  };
  api.init_rank = init_rank;
  api.async_error = [](NcclComm comm) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(theirs(comm), &state);
    return ours(result == ncclSuccess ? state : result);
  };
  api.finalize = [](NcclComm comm) { return ours(ncclCommFinalize(theirs(comm))); };
  api.destroy = [](NcclComm comm) { return ours(ncclCommDestroy(theirs(comm))); };
  api.abort = [](NcclComm comm) { return ours(ncclCommAbort(theirs(comm))); };
  api.all_reduce = [](const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, NcclComm comm,
                      CudaStreamHandle stream) {
    return ours(ncclAllReduce(send, receive, count, theirs(type), theirs(op), theirs(comm), stream_of(stream)));
  };
  api.broadcast = [](const void* send, void* receive, std::size_t count, DataType type, int root, NcclComm comm,
                     CudaStreamHandle stream) {
    return ours(ncclBroadcast(send, receive, count, theirs(type), root, theirs(comm), stream_of(stream)));
  };
  api.all_gather = [](const void* send, void* receive, std::size_t send_count, DataType type, NcclComm comm,
                      CudaStreamHandle stream) {
    return ours(ncclAllGather(send, receive, send_count, theirs(type), theirs(comm), stream_of(stream)));
  };
  api.error_string = [](NcclResult result) -> std::string {
    return ncclGetErrorString(static_cast<ncclResult_t>(result));
  };
  api.last_error = [](NcclComm comm) -> std::string {
    const char* text = ncclGetLastError(theirs(comm));
    return text == nullptr ? "" : text;
  };
  return api;
}

CudaApi real_cuda() {
  CudaApi api;
  api.device_count = [](int& count) -> CudaStatus { return cudaGetDeviceCount(&count); };
  api.bus_id = [](int device, std::string& bus_id) -> CudaStatus {
    char text[32] = "";
    const cudaError_t status = cudaDeviceGetPCIBusId(text, sizeof text, device);
    bus_id = text;
    return status;
  };
  api.set_device = [](int device) -> CudaStatus { return cudaSetDevice(device); };
  api.create_stream = [](CudaStreamHandle& stream) -> CudaStatus {
    cudaStream_t made = nullptr;
    const cudaError_t status = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    stream = made;
    return status;
  };
  api.destroy_stream = [](CudaStreamHandle stream) -> CudaStatus { return cudaStreamDestroy(stream_of(stream)); };
  api.query_stream = [](CudaStreamHandle stream) -> CudaStatus {
    const cudaError_t status = cudaStreamQuery(stream_of(stream));
    // "Not ready" is no error, but CUDA remembers it as this thread's last one.
    if (status == cudaErrorNotReady) cudaGetLastError();
    return status;
  };
  api.allocate = [](void*& memory, std::size_t bytes) -> CudaStatus { return cudaMalloc(&memory, bytes); };
  api.release = [](void* memory) -> CudaStatus { return cudaFree(memory); };
  api.copy_async = [](void* to, const void* from, std::size_t bytes, CopyDirection direction,
                      CudaStreamHandle stream) -> CudaStatus {
    return cudaMemcpyAsync(to, from, bytes,
                           direction == CopyDirection::to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                           stream_of(stream));
  };
  api.error_name = [](CudaStatus status) -> std::string { return cudaGetErrorName(static_cast<cudaError_t>(status)); };
  return api;
}

ProbeResult probe(const BackendOptions& options) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");  // NOLINT(concurrency-mt-unsafe)
  return probe_nccl(options.local_rank, real_cuda(), host, shared != nullptr && std::string_view(shared) == "1");
}

// The plug-in's table wants the store by value.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<Backend> create(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<NcclBackend>(options, *store, real_nccl(), real_cuda());
}

}  // namespace
}  // namespace ddp

extern "C" DDP_EXPORT const ddp::BackendPlugin* ddp_backend_plugin() {
  static const ddp::BackendPlugin plugin{ddp::kBackendPluginAbi, "nccl", ddp::probe, ddp::create};
  return &plugin;
}

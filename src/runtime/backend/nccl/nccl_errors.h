// All errors and warnings of the backend for GPUs, and the reasons why it cannot be used.
#pragma once

#include <ddp/error.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "runtime/backend/nccl/cuda_resources.h"

namespace ddp::internal {

// Why this rank has no GPU. `reason` is the driver's or the loader's.

inline constexpr const char* kNoDriverText = "no NVIDIA driver is installed here";
inline constexpr const char* kNoGpuText = "no NVIDIA GPU is visible here";
inline std::string driver_unusable_text(const std::string& reason) {
  return "the NVIDIA driver cannot be used (" + reason + ")";
}
inline std::string driver_not_initialized_text(const std::string& reason) {
  return "the NVIDIA driver cannot be initialized (" + reason + ")";
}
inline std::string no_gpu_text(const std::string& reason) {
  return std::string(kNoGpuText) + " (" + reason + ")";
}
inline std::string too_few_gpus_text(int local_rank, int count) {
  return "there is no GPU for local rank " + std::to_string(local_rank) + " (visible GPUs: " + std::to_string(count) +
         ")";
}
inline std::string gpu_does_not_respond_text(int device, const std::string& reason) {
  return "GPU " + std::to_string(device) + " does not respond (" + reason + ")";
}
inline std::string no_nccl_text(const std::string& file, const std::string& reason) {
  return "NCCL cannot be used (" + file + ": " + reason + "). Install NCCL, or add its directory to LD_LIBRARY_PATH.";
}
inline std::string old_nccl_text(const std::string& version, const std::string& oldest) {
  return "NCCL " + version + " is too old; " + oldest + " or newer is needed";
}

// Warnings, each printed once per process

inline std::string destroyed_stream_warning(const std::string& reason) {
  return "ddp: warning: a stream was destroyed that a process group still uses (" + reason +
         "), so the process may crash. Call ProcessGroup::forget(stream) before cudaStreamDestroy\n";
}
inline std::string no_kernels_warning(const std::string& reason) {
  return "ddp: warning: the NVIDIA driver cannot load the runtime's kernels (" + reason +
         "), so compression, gradient clipping, loss scaling and optimizers do not work in GPU memory. They need a GPU "
         "from Volta on, and a driver from CUDA 11 on\n";
}
inline std::string memory_from_cuda_note(const std::string& reason) {
  return "ddp: note: GPU memory comes from CUDA, because NCCL cannot allocate it (" + reason + ")\n";
}

// CUDA. `status` is the name of its status.

inline Error cuda_error(const std::string& action, const std::string& status) {
  return {ErrorKind::internal, "CUDA cannot " + action + " (" + status + ")"};
}
// `memory` holds how many bytes of the GPU are free, and how many it has.
inline Error out_of_gpu_memory_error(const GpuMemoryRequest& request,
                                     const std::optional<std::pair<std::size_t, std::size_t>>& memory,
                                     const std::string& status) {
  std::string text = "out of GPU memory: " + base::human_bytes(request.bytes) + " were requested";
  if (request.device) text += " on GPU " + std::to_string(*request.device);
  if (request.rank) text += " by rank " + std::to_string(*request.rank);
  if (!request.purpose.empty()) text += " " + std::string(request.purpose);
  if (memory) {
    text += ", where " + base::human_bytes(memory->first) + " of " + base::human_bytes(memory->second) + " are free";
  }
  return {ErrorKind::unavailable,
          text + " (" + status +
              "). Try a smaller batch with gradient accumulation, or ddp::ShardOptimizer. nvidia-smi shows other "
              "processes that hold memory on the GPU."};
}
inline Error stream_per_thread_error(const std::string& action) {
  return {ErrorKind::invalid_argument,
          action +
              ": cudaStreamPerThread means another stream on each thread, and the library has threads of its own. "
              "Create a stream with cudaStreamCreateWithFlags, or use the default stream (nullptr)"};
}
inline Error captured_call_error(const std::string& action) {
  return {ErrorKind::invalid_argument,
          action +
              ": the stream captures a CUDA graph. A graph that is replayed would run the operation without the other "
              "ranks. Call it outside the capture, between the launches of graphs"};
}
inline Error captured_forget_error() {
  return {ErrorKind::invalid_argument, "forget: the stream captures a CUDA graph. End the capture, and call it again"};
}
inline Error unfinished_stream_error(std::chrono::nanoseconds limit) {
  return {ErrorKind::timeout, "a CUDA stream has not finished after " + base::human_duration(limit)};
}
inline Error forgotten_stream_error() {
  return {ErrorKind::aborted, "its stream was forgotten before the operation began"};
}
inline Error not_on_gpu_error(const std::string& buffer) {
  return {ErrorKind::invalid_argument, buffer + " is declared to be in GPU memory, but it is not"};
}
inline Error on_other_gpu_error(const std::string& buffer, int device, int own_device) {
  return {ErrorKind::invalid_argument, buffer + " is in the memory of GPU " + std::to_string(device) +
                                           "; this rank uses GPU " + std::to_string(own_device)};
}

// NCCL

inline Error common_address_error(const std::string& address) {
  return {ErrorKind::unavailable,
          "NCCL_COMM_ID=" + address +
              " gives all NCCL communicators one address. A group needs one for each. Unset the variable; the ranks "
              "exchange the addresses themselves"};
}
inline Error no_unique_id_error(const std::string& reason, const std::string& detail) {
  return {ErrorKind::internal, "NCCL cannot create a unique id (" + reason + "; " + detail + ")"};
}
inline Error late_id_error(std::chrono::milliseconds timeout) {
  return {ErrorKind::timeout, "no NCCL id arrived within " + base::human_duration(timeout)};
}
inline Error other_id_error(std::size_t bytes, std::size_t expected) {
  return {ErrorKind::mismatch, "another rank sent an NCCL id of " + std::to_string(bytes) + " bytes, not " +
                                   std::to_string(expected) + ": the ranks run different programs"};
}
inline Error late_nccl_error(const std::string& action, const std::string& late, std::chrono::milliseconds timeout) {
  return {ErrorKind::timeout, action + ": " + late + " within " + base::human_duration(timeout) + " (nccl)"};
}
inline Error nccl_error(ErrorKind kind, const std::string& action, const std::string& reason,
                        const std::string& detail) {
  return {kind, action + " (NCCL: " + reason + (detail.empty() ? "" : "; " + detail) + ")"};
}
inline Error ended_communicator_error() {
  return {ErrorKind::aborted, "the NCCL communicator was aborted"};
}
inline Error failed_communicator_error() {
  return {ErrorKind::aborted, "the NCCL communicator was aborted after an earlier failure"};
}
inline Error wrong_sum_error(float sum, int ranks, const std::string& what_to_try) {
  return {ErrorKind::internal, "the GPUs computed " + std::to_string(sum) + " as the sum of " + std::to_string(ranks) +
                                   " ones. " + what_to_try};
}
inline Error wrong_registered_sum_error(const std::string& variable) {
  return {ErrorKind::internal, "the GPUs computed a wrong sum in registered memory. Unset " + variable};
}
// Adds to a failure of the first collective what may help.
inline Error first_failure_error(const Error& error, const std::string& what_to_try) {
  return {error.kind(), std::string(error.what()) + ". " + what_to_try, error.peer()};
}

// Actions of NCCL that fail, and what a rank did not do
inline constexpr const char* kMakeAction = "the ranks cannot create their NCCL communicator";
inline constexpr const char* kSplitAction = "the ranks cannot split their NCCL communicator";
inline constexpr const char* kStartAction = "the GPUs' collective cannot start";
inline constexpr const char* kRunAction = "the GPUs' collective failed";
inline constexpr const char* kConnectionLostText = "the connection to another rank broke, because that rank has exited";
inline constexpr const char* kNotArrived = "a rank did not arrive";
inline constexpr const char* kNotTaking = "a rank did not take part";

}  // namespace ddp::internal

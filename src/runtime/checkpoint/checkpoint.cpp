#include <ddp/checkpoint.h>
#include <ddp/error.h>
#include <ddp/progress.h>

#include "runtime/call/called_from.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/checkpoint/on_rank_zero.h"
#include "runtime/checkpoint/tensor_copier.h"
#include "runtime/group/agreement.h"

namespace ddp {

using namespace internal;

namespace {

// All ranks call it. A rank that has found a fault still takes part, so that the others do not wait for it.
void check_tensors(const ProcessGroup& group, const std::string& path, std::span<const Tensor> tensors) {
  const std::string fault = find_fault(group, tensors);
  const auto disagreement =
      first_disagreement(group, fault.empty() ? describe_all(tensors) : "a fault: " + fault, "checkpoint");
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, "checkpoint " + path + ": " + fault);
  if (!disagreement) return;
  throw Error(ErrorKind::mismatch, "checkpoint " + path + ": the ranks have different tensors: " + *disagreement);
}

// Reads into host memory first, because the file cannot be read into GPU memory.
std::map<std::string, std::string> read_on_host(const std::string& path, std::span<const Tensor> tensors,
                                                const TensorCopier& copier) {
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<Tensor> on_host(tensors.begin(), tensors.end());
  for (Tensor& tensor : on_host) {
    if (tensor.data.device == DeviceType::cuda) tensor.data = TensorCopier::allocate(tensor.data, memory);
  }
  std::map<std::string, std::string> metadata = read_checkpoint_file(path, on_host);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].data.device == DeviceType::cuda) copier.copy(tensors[i].data, on_host[i].data);
  }
  return metadata;
}

}  // namespace

bool CheckpointFile::exists(CallSite site) {
  const CalledFrom here(site);
  return on_rank_zero(group_, [&] { return std::string(checkpoint_file_exists(path_) ? "yes" : "no"); }) == "yes";
}

void CheckpointFile::save(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata,
                          CallSite site) {
  const CalledFrom here(site);
  const PhaseScope phase(Phase::checkpoint, path_, site);
  check_tensors(group_, path_, tensors);
  on_rank_zero(group_, [&] {
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::vector<Tensor> on_host(tensors.begin(), tensors.end());
    const TensorCopier copier(group_, stream_);
    for (Tensor& tensor : on_host) tensor.data = copier.on_host(tensor.data, false, memory);
    write_checkpoint_file(path_, on_host, metadata);
    return std::string();
  });
}

std::map<std::string, std::string> CheckpointFile::load(std::span<const Tensor> tensors, CallSite site) {
  const CalledFrom here(site);
  const PhaseScope phase(Phase::checkpoint, path_, site);
  check_tensors(group_, path_, tensors);
  const TensorCopier copier(group_, stream_);
  const std::string metadata = on_rank_zero(group_, [&] { return encode_texts(read_on_host(path_, tensors, copier)); });
  for (const Tensor& tensor : tensors) {
    group_.broadcast(tensor.data, 0, {.stream = copier.stream_of(tensor.data)}).wait();
  }
  return parse_texts(metadata);
}

}  // namespace ddp

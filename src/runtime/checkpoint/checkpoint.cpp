#include <ddp/checkpoint.h>
#include <ddp/error.h>
#include <ddp/progress.h>

#include "runtime/call/called_from.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/checkpoint/on_rank_zero.h"
#include "runtime/group/agreement.h"

namespace ddp {

using namespace internal;

namespace {

// All ranks call it. A rank that has found a fault still takes part, so that the others do not wait for it.
void check_tensors(const ProcessGroup& group, const std::string& path, std::span<const Tensor> tensors) {
  const std::string fault = find_fault(tensors);
  const auto disagreement =
      first_disagreement(group, fault.empty() ? describe_all(tensors) : "a fault: " + fault, "checkpoint");
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, "checkpoint " + path + ": " + fault);
  if (!disagreement) return;
  throw Error(ErrorKind::mismatch, "checkpoint " + path + ": the ranks have different tensors: " + *disagreement);
}

}  // namespace

bool CheckpointFile::exists(CallSite site) {
  const CalledFrom here(site);
  return on_rank_zero(group_, [&] { return std::string(checkpoint_file_exists(path_) ? "yes" : "no"); }) == "yes";
}

void CheckpointFile::save(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata,
                          CallSite site) {
  const CalledFrom here(site);
  const PhaseScope section(Phase::checkpoint, path_, site);
  check_tensors(group_, path_, tensors);
  on_rank_zero(group_, [&] {
    write_checkpoint_file(path_, tensors, metadata);
    return std::string();
  });
}

std::map<std::string, std::string> CheckpointFile::load(std::span<const Tensor> tensors, CallSite site) {
  const CalledFrom here(site);
  const PhaseScope section(Phase::checkpoint, path_, site);
  check_tensors(group_, path_, tensors);
  const std::string metadata = on_rank_zero(group_, [&] { return encode_texts(read_checkpoint_file(path_, tensors)); });
  for (const Tensor& tensor : tensors) group_.broadcast(tensor.data, 0).wait();
  return parse_texts(metadata);
}

}  // namespace ddp

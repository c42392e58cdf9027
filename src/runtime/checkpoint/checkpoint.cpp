#include <ddp/checkpoint.h>
#include <ddp/error.h>

#include <nlohmann/json.hpp>

#include <functional>

#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/group/agreement.h"

namespace ddp {
namespace {

using Json = nlohmann::json;

// Runs `deed` on rank 0 and gives every rank its result, or throws on every rank what it threw.
Json on_rank_zero(ProcessGroup& group, const std::function<Json()>& deed) {
  Json outcome;
  if (group.rank() == 0) {
    try {
      outcome["result"] = deed();
    } catch (const Error& error) {
      outcome = {{"kind", static_cast<int>(error.kind())}, {"message", error.what()}};
    } catch (const std::exception& error) {  // no memory, say: the other ranks must not wait for ever
      outcome = {{"kind", static_cast<int>(ErrorKind::internal)}, {"message", error.what()}};
    }
  }
  const std::vector<std::uint8_t> own = group.rank() == 0 ? Json::to_cbor(outcome) : std::vector<std::uint8_t>();
  const std::string bytes = group.broadcast_bytes({reinterpret_cast<const char*>(own.data()), own.size()}, 0);
  outcome = Json::from_cbor(bytes);
  if (outcome.contains("message")) {
    throw Error(static_cast<ErrorKind>(outcome["kind"].get<int>()), outcome["message"].get<std::string>());
  }
  return outcome["result"];
}

// Collective. A rank with a fault of its own still takes part, so that the others do not wait for it.
void check_tensors(ProcessGroup& group, const std::string& path, std::span<const Tensor> tensors) {
  const std::string fault = find_fault(tensors);
  const auto disagreement = first_disagreement(group, fault.empty() ? describe_all(tensors) : "a fault: " + fault);
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, "checkpoint " + path + ": " + fault);
  if (!disagreement) return;
  throw Error(ErrorKind::mismatch, "checkpoint " + path + ": the ranks have different tensors: " + *disagreement);
}

}  // namespace

bool Checkpoint::exists() {
  return on_rank_zero(group_, [&]() -> Json { return checkpoint_file_exists(path_); }).get<bool>();
}

void Checkpoint::save(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata) {
  check_tensors(group_, path_, tensors);
  on_rank_zero(group_, [&]() -> Json {
    write_checkpoint_file(path_, tensors, metadata);
    return nullptr;
  });
}

std::map<std::string, std::string> Checkpoint::load(std::span<const Tensor> tensors) {
  check_tensors(group_, path_, tensors);
  const Json metadata = on_rank_zero(group_, [&]() -> Json { return read_checkpoint_file(path_, tensors); });
  for (const Tensor& tensor : tensors) group_.broadcast(tensor.data, 0).wait();
  return metadata.get<std::map<std::string, std::string>>();
}

}  // namespace ddp

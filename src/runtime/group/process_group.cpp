// This file checks arguments and makes Calls of them. It sends nothing.
#include <ddp/error.h>
#include <ddp/process_group.h>

#include <algorithm>

#include "runtime/group/group_core.h"
#include "runtime/group/group_errors.h"
#include "runtime/peers/node_group.h"
#include "runtime/progress/worker_progress.h"

namespace ddp {

using namespace internal;

namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::invalid_argument, message);
}

// Checks the arguments of one call, and throws an error that names the fault.
class Checks {
 public:
  Checks(const GroupCore& core, Operation operation) : core_(core), name_(to_string(operation)) {}

  void rank(int rank, const char* what) const {
    require(rank >= 0 && rank < core_.size(), name_ + ": " + what + " " + std::to_string(rank) +
                                                  " is not a rank of a group of " + std::to_string(core_.size()));
  }
  void other_rank(int rank, const char* what) const {
    this->rank(rank, what);
    require(rank != core_.rank(), name_ + ": rank " + std::to_string(rank) + " is this rank itself");
  }
  void reduction(ReduceOp op, DataType type) const {
    require(is_defined(op, type), name_ + ": " + std::string(to_string(op.kind)) + " of " +
                                      std::string(to_string(type)) + " is not defined; it needs " +
                                      (is_floating_point(type) ? "an integer type or bool" : "a floating-point type"));
  }
  void same_type(const ConstBuffer& a, const ConstBuffer& b) const {
    require(a.type == b.type && a.device == b.device,
            name_ + ": " + describe(a) + " and " + describe(b) + " must have the same type and be in the same memory");
  }
  // Requires that `whole` consists of one part per rank.
  void times(const ConstBuffer& whole, const ConstBuffer& part, const char* whole_name, const char* part_name) const {
    same_type(whole, part);
    require(whole.count == part.count * ranks(), name_ + ": the " + whole_name + " " + describe(whole) + " must hold " +
                                                     std::to_string(ranks()) + " times the " + part_name + " " +
                                                     describe(part));
  }
  void divisible(const ConstBuffer& whole, const char* what) const {
    require(whole.count % ranks() == 0, name_ + ": the " + what + " " + describe(whole) + " does not consist of " +
                                            std::to_string(ranks()) + " equal parts");
  }
  template <typename Part>
  void parts(std::span<const Part> parts, const ConstBuffer& own, const char* what) const {
    require(parts.size() == ranks(), name_ + ": " + std::to_string(parts.size()) + " " + what + "; a group of " +
                                         std::to_string(ranks()) + " needs one per rank");
    for (const Part& part : parts) same_type(part, own);
  }
  // Requires that this rank's part has the same size on both sides.
  void own_part(const ConstBuffer& part, const ConstBuffer& own) const {
    require(part.count == own.count,
            name_ + ": this rank's part is " + describe(part) + " on one side and " + describe(own) + " on the other");
  }
  // Returns the parts. There must be one for each rank, and this rank's own must be as large as `own`.
  template <typename Part>
  std::vector<Part> listed(std::span<const Part> parts, const ConstBuffer& own, const char* what) const {
    this->parts(parts, own, what);
    own_part(parts[this->own()], own);
    return {parts.begin(), parts.end()};
  }
  std::size_t ranks() const { return static_cast<std::size_t>(core_.size()); }
  std::size_t own() const { return static_cast<std::size_t>(core_.rank()); }
  bool is(int root) const { return core_.rank() == root; }

 private:
  const GroupCore& core_;
  const std::string name_;
};

// `peer` is the root, or the other rank of a send or recv.
Call from_to(Operation operation, const ConstBuffer& input, const Buffer& output, int peer = -1,
             ReduceOp op = ReduceOp::sum) {
  Call call;
  call.operation = operation;
  call.input = input;
  call.output = output;
  call.peer = peer;
  call.op = op;
  return call;
}

// Returns the buffer by which messages describe a list of parts.
template <typename Part>
ConstBuffer total(std::span<const Part> parts) {
  ConstBuffer result = parts[0];
  result.count = 0;
  for (const Part& part : parts) result.count += part.count;
  return result;
}

}  // namespace

CollectiveBatch::CollectiveBatch(std::shared_ptr<GroupCore> core) : core_(std::move(core)) {
  core_->hold_collectives();
}
CollectiveBatch::~CollectiveBatch() {
  if (core_) core_->release_collectives();
}

GroupCore& ProcessGroup::core() const {
  if (core_ == nullptr) throw empty_group_error();
  return *core_;
}

int ProcessGroup::rank() const {
  return core().rank();
}
int ProcessGroup::size() const {
  return core().size();
}
int ProcessGroup::local_rank() const {
  return static_cast<int>(core().node_group().own());
}
int ProcessGroup::local_size() const {
  return static_cast<int>(core().node_group().size());
}
Device ProcessGroup::device() const {
  const std::optional<int> gpu = core().backend().gpu();
  return gpu ? Device{DeviceType::cuda, *gpu} : Device{};
}
const std::string& ProcessGroup::name() const {
  return core().description().name;
}
const std::string& ProcessGroup::backend() const {
  return core().backend_name();
}
const std::string& ProcessGroup::backend_reason() const {
  return core().description().backend_reason;
}

Work ProcessGroup::all_reduce(Buffer buffer, ReduceOp op, const CallOptions& options, CallSite site) const {
  if (!is_defined(op, buffer.type)) Checks(core(), Operation::all_reduce).reduction(op, buffer.type);
  return core().push(from_to(Operation::all_reduce, buffer, buffer, -1, op), options, site);
}

Work ProcessGroup::reduce(Buffer buffer, int root, ReduceOp op, const CallOptions& options, CallSite site) const {
  const Checks checks(core(), Operation::reduce);
  checks.rank(root, "root");
  checks.reduction(op, buffer.type);
  return core().push(from_to(Operation::reduce, buffer, buffer, root, op), options, site);
}

Work ProcessGroup::broadcast(Buffer buffer, int root, const CallOptions& options, CallSite site) const {
  Checks(core(), Operation::broadcast).rank(root, "root");
  return core().push(from_to(Operation::broadcast, buffer, buffer, root), options, site);
}

Work ProcessGroup::all_gather(Buffer output, ConstBuffer input, const CallOptions& options, CallSite site) const {
  Checks(core(), Operation::all_gather).times(output, input, "output", "input");
  return core().push(from_to(Operation::all_gather, input, output), options, site);
}

Work ProcessGroup::all_gather(std::span<const Buffer> outputs, ConstBuffer input, const CallOptions& options,
                              CallSite site) const {
  const Checks checks(core(), Operation::all_gather);
  Call call = from_to(Operation::all_gather, input, {});
  call.output_parts = checks.listed(outputs, input, "outputs");
  return core().push(std::move(call), options, site);
}

Work ProcessGroup::gather(Buffer output, ConstBuffer input, int root, const CallOptions& options, CallSite site) const {
  const Checks checks(core(), Operation::gather);
  checks.rank(root, "root");
  if (checks.is(root)) checks.times(output, input, "output", "input");
  return core().push(from_to(Operation::gather, input, checks.is(root) ? output : Buffer(), root), options, site);
}

Work ProcessGroup::gather(std::span<const Buffer> outputs, ConstBuffer input, int root, const CallOptions& options,
                          CallSite site) const {
  const Checks checks(core(), Operation::gather);
  checks.rank(root, "root");
  Call call = from_to(Operation::gather, input, {}, root);
  if (checks.is(root)) call.output_parts = checks.listed(outputs, input, "outputs");
  return core().push(std::move(call), options, site);
}

Work ProcessGroup::scatter(Buffer output, ConstBuffer input, int root, const CallOptions& options,
                           CallSite site) const {
  const Checks checks(core(), Operation::scatter);
  checks.rank(root, "root");
  if (checks.is(root)) checks.times(input, output, "input", "output");
  return core().push(from_to(Operation::scatter, checks.is(root) ? input : ConstBuffer(), output, root), options, site);
}

Work ProcessGroup::scatter(Buffer output, std::span<const ConstBuffer> inputs, int root, const CallOptions& options,
                           CallSite site) const {
  const Checks checks(core(), Operation::scatter);
  checks.rank(root, "root");
  Call call = from_to(Operation::scatter, {}, output, root);
  if (checks.is(root)) call.input_parts = checks.listed(inputs, output, "inputs");
  return core().push(std::move(call), options, site);
}

Work ProcessGroup::reduce_scatter(Buffer output, ConstBuffer input, ReduceOp op, const CallOptions& options,
                                  CallSite site) const {
  const Checks checks(core(), Operation::reduce_scatter);
  checks.times(input, output, "input", "output");
  checks.reduction(op, output.type);
  return core().push(from_to(Operation::reduce_scatter, input, output, -1, op), options, site);
}

Work ProcessGroup::reduce_scatter(Buffer output, std::span<const ConstBuffer> inputs, ReduceOp op,
                                  const CallOptions& options, CallSite site) const {
  const Checks checks(core(), Operation::reduce_scatter);
  std::vector<ConstBuffer> parts = checks.listed(inputs, output, "inputs");
  checks.reduction(op, output.type);
  Call call = from_to(Operation::reduce_scatter, total(inputs), output, -1, op);
  call.input_parts = std::move(parts);
  return core().push(std::move(call), options, site);
}

Work ProcessGroup::all_to_all(Buffer output, ConstBuffer input, const CallOptions& options, CallSite site) const {
  const Checks checks(core(), Operation::all_to_all);
  checks.same_type(output, input);
  checks.own_part(output, input);
  checks.divisible(input, "input");
  return core().push(from_to(Operation::all_to_all, input, output), options, site);
}

Work ProcessGroup::all_to_all(std::span<const Buffer> outputs, std::span<const ConstBuffer> inputs,
                              const CallOptions& options, CallSite site) const {
  const Checks checks(core(), Operation::all_to_all);
  require(!outputs.empty() && !inputs.empty(), "all_to_all: the list of outputs or of inputs is empty");
  checks.parts(outputs, inputs[0], "outputs");
  checks.parts(inputs, inputs[0], "inputs");
  checks.own_part(outputs[checks.own()], inputs[checks.own()]);
  Call call = from_to(Operation::all_to_all, total(inputs), {});
  call.output_parts.assign(outputs.begin(), outputs.end());
  call.input_parts.assign(inputs.begin(), inputs.end());
  return core().push(std::move(call), options, site);
}

Work ProcessGroup::send(ConstBuffer input, int to, const CallOptions& options, CallSite site) const {
  Checks(core(), Operation::send).other_rank(to, "receiver");
  return core().push(from_to(Operation::send, input, {}, to), options, site);
}

Work ProcessGroup::recv(Buffer output, int from, const CallOptions& options, CallSite site) const {
  Checks(core(), Operation::recv).other_rank(from, "sender");
  return core().push(from_to(Operation::recv, {}, output, from), options, site);
}

Work ProcessGroup::barrier(const CallOptions& options, CallSite site) const {
  return core().push({}, options, site);
}

void ProcessGroup::monitored_barrier(std::optional<std::chrono::milliseconds> timeout, CallSite /*site*/) const {
  core().monitored_barrier(timeout);
}

std::vector<std::string> ProcessGroup::all_gather_bytes(std::string_view bytes, CallSite site) const {
  const auto ranks = static_cast<std::size_t>(size());
  const std::vector<std::int64_t> length = {static_cast<std::int64_t>(bytes.size())};
  std::vector<std::int64_t> lengths(ranks);
  all_gather(lengths, length, {}, site).wait();
  std::vector<std::string> result;
  std::vector<Buffer> outputs;
  for (const std::int64_t other : lengths) result.emplace_back(static_cast<std::size_t>(other), '\0');
  for (std::string& text : result) outputs.emplace_back(text.data(), text.size(), DataType::u8);
  all_gather(outputs, {bytes.data(), bytes.size(), DataType::u8}, {}, site).wait();
  return result;
}

std::string ProcessGroup::broadcast_bytes(std::string_view bytes, int root, CallSite site) const {
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(bytes.size())};
  broadcast(length, root, {}, site).wait();
  std::string result(static_cast<std::size_t>(length[0]), '\0');
  if (rank() == root) result = bytes;
  broadcast({result.data(), result.size(), DataType::u8}, root, {}, site).wait();
  return result;
}

ProcessGroup ProcessGroup::new_group(std::span<const int> ranks, std::string name) const {
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  require(std::binary_search(sorted.begin(), sorted.end(), rank()),
          "new_group: rank " + std::to_string(rank()) + " calls it but is not in the list");
  require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "new_group: a rank is in the list twice");
  require(sorted.front() >= 0 && sorted.back() < size(),
          "new_group: the list has a rank that is not in this group of " + std::to_string(size()));
  return ProcessGroup(core().make_group(ranks, std::move(name)));
}

std::optional<ProcessGroup> ProcessGroup::split(int color, int key, CallSite site) const {
  const std::array<std::int32_t, 2> own = {color, key};
  std::vector<std::int32_t> all(own.size() * static_cast<std::size_t>(size()));
  all_gather(all, own, {}, site).wait();
  std::vector<int> members;
  for (int other = 0; other < size(); ++other) {
    if (all[static_cast<std::size_t>(other) * 2] == color) members.push_back(other);
  }
  const auto key_of = [&](int other) { return all[static_cast<std::size_t>(other) * 2 + 1]; };
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  auto made = core().split_off(color, members, name() + "/" + std::to_string(color));
  if (!made) return std::nullopt;
  return ProcessGroup(std::move(made));
}

Memory ProcessGroup::allocate(std::size_t count, DataType type, DeviceType device) const {
  core().require_open("allocate");
  const std::size_t bytes = count * size_of(type);
  Backend& backend = core().backend();
  auto memory = device == DeviceType::cpu ? backend.allocate(bytes) : backend.allocate_on_gpu(bytes);
  return {{memory.get(), count, type, device}, memory};
}

Memory ProcessGroup::allocate_pinned(std::size_t count, DataType type) const {
  auto memory = core().backend().allocate_pinned(count * size_of(type));
  return {{memory.get(), count, type}, memory};
}

void ProcessGroup::copy(Buffer to, ConstBuffer from, Stream stream) const {
  require(to.bytes() == from.bytes(), "copy: " + describe(from) + " and " + describe(to) + " have different sizes");
  core().backend().copy(to, from, stream);
}

void ProcessGroup::zero(Buffer buffer, Stream stream) const {
  core().backend().zero(buffer, stream);
}

void ProcessGroup::forget(Stream stream) const {
  core().backend().forget(stream);
}

Registration ProcessGroup::register_buffer(Buffer buffer) const {
  return Registration(core().backend().register_buffer(buffer));
}

CollectiveBatch ProcessGroup::batch() const {
  core();
  return CollectiveBatch(core_);
}

void ProcessGroup::abort() const {
  core().abort();
}

void ProcessGroup::finalize(CallSite site) const {
  enter_phase(Phase::finishing);
  barrier({}, site).wait();
  core().close(kFinalizedText);
  enter_phase(Phase::done);
}

}  // namespace ddp

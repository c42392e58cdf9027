#include "runtime/peers/mismatch_check.h"

#include <ddp/error.h>

#include <string_view>

#include "base/check.h"
#include "runtime/call/transfer_plan.h"
#include "runtime/progress/status_page.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

std::string describe(const CallRecord& record) {
  Call call;
  call.operation = static_cast<Operation>(record.operation);
  call.input = {nullptr, record.count, static_cast<DataType>(record.type)};
  call.output = {nullptr, record.count, static_cast<DataType>(record.type)};
  call.op = static_cast<ReduceOp::Kind>(record.op);
  call.peer = record.peer;
  call.sequence = record.sequence;
  call.name = record.name.data();
  return internal::describe(call) + place_in_program(record.file.data(), record.line);
}

CallRecord& place_of(const NodeGroup& node, std::size_t index, std::uint64_t sequence) {
  return node.area(index).records[sequence % kCallRecords];
}

CallPrint& print_of(const NodeGroup& node, std::size_t index, std::uint64_t sequence) {
  return node.area(index).prints[sequence % kCallPrints];
}

// The record of the peer's call is gone, because the peer has called so much since.
void compare_with_past_call(const NodeGroup& node, std::size_t peer, const Call& call) {
  const CallPrint& print = print_of(node, peer, call.sequence);
  if (print.sequence.load(std::memory_order_acquire) != call.sequence) return;
  const std::uint64_t theirs = print.fingerprint.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (theirs == call.fingerprint || print.sequence.load(std::memory_order_relaxed) != call.sequence) return;
  const std::string other =
      "another one under this number, and is at #" + std::to_string(node.area(peer).shown) + " now";
  throw Error(ErrorKind::mismatch,
              describe_difference(node.rank_of(node.own()), describe_with_place(call), node.rank_of(peer), other),
              node.rank_of(peer));
}

}  // namespace

std::string place_in_program(const char* file, int line) {
  return *file == '\0' ? "" : " (" + std::string(file) + ":" + std::to_string(line) + ")";
}

std::string describe_with_place(const Call& call) {
  return describe(call) + place_in_program(call.site.file, call.site.line);
}

std::optional<PartCounts> part_counts(const Call& call, int rank, int size) {
  const bool has_parts = call.operation == Operation::gather || call.operation == Operation::scatter ||
                         call.operation == Operation::all_to_all;
  if (!has_parts || size > static_cast<int>(kComparedParts)) return std::nullopt;
  const TransferPlan plan{call, rank, size};
  PartCounts counts;
  for (int other = 0; other < size; ++other) {
    counts.gives[static_cast<std::size_t>(other)] = plan.given_to(other).count;
    counts.takes[static_cast<std::size_t>(other)] = plan.taken_from(other).count;
  }
  return counts;
}

std::string part_difference(int rank, const PartCounts& own, int peer, const PartCounts& theirs) {
  const auto sentence = [](int giver, std::uint64_t given, int taker, std::uint64_t taken) {
    return "rank " + std::to_string(giver) + " sends " + std::to_string(given) + " elements to rank " +
           std::to_string(taker) + ", which has a buffer for " + std::to_string(taken);
  };
  const auto self = static_cast<std::size_t>(rank);
  const auto other = static_cast<std::size_t>(peer);
  if (own.gives[other] != theirs.takes[self]) return sentence(rank, own.gives[other], peer, theirs.takes[self]);
  if (theirs.gives[self] != own.takes[other]) return sentence(peer, theirs.gives[self], rank, own.takes[other]);
  return "";
}

std::string describe_difference(int rank, const std::string& own, int other_rank, const std::string& other) {
  return "the ranks call different collectives: rank " + std::to_string(rank) + " calls " + own + ", rank " +
         std::to_string(other_rank) + " calls " + other +
         (own == other ? ", but with different counts for the parts of the ranks" : "") +
         ". All ranks of a group must call the same collectives in the same order, with the same counts, types and "
         "names.";
}

void show_call(NodeGroup& node, const Call& call) {
  CallRecord& record = place_of(node, node.own(), call.sequence);
  record.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const ConstBuffer subject = subject_of(call);
  record.fingerprint.store(call.fingerprint, std::memory_order_relaxed);
  // Separate parts may lie anywhere, so they have no place.
  const bool whole = call.input_parts.empty();
  record.address = whole ? reinterpret_cast<std::uint64_t>(call.input.data) : 0;
  const auto place = whole ? node.segments().place_of(call.input.data, call.input.bytes()) : Segments::Place{};
  record.segment = place.number;
  record.offset = place.offset;
  record.line = call.site.line;
  record.factor = factor_of(call.op, node.group_size());
  record.count = subject.count;
  record.peer = call.peer;
  record.operation = static_cast<std::uint8_t>(call.operation);
  record.type = static_cast<std::uint8_t>(subject.type);
  record.op = call.op.kind;
  if (const auto parts = part_counts(call, node.rank_of(node.own()), node.group_size())) record.parts = *parts;
  write_end_of(record.name, std::string_view(call.name).substr(0, record.name.size() - 1));
  write_end_of(record.file, call.site.file);
  record.sequence.store(call.sequence, std::memory_order_release);
  CallPrint& print = print_of(node, node.own(), call.sequence);
  print.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  print.fingerprint.store(call.fingerprint, std::memory_order_relaxed);
  print.sequence.store(call.sequence, std::memory_order_release);
  // If two ranks publish and compare at the same time, at least one sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

const CallRecord* record_of(const NodeGroup& node, std::size_t peer, std::uint64_t sequence) {
  const CallRecord& record = place_of(node, peer, sequence);
  return record.sequence.load(std::memory_order_acquire) == sequence ? &record : nullptr;
}

const CallRecord& shown_call(const NodeGroup& node, std::size_t peer, const Call& call) {
  const CallRecord* record = record_of(node, peer, call.sequence);
  DDP_CHECK(record != nullptr, peer, call.sequence);
  return *record;
}

void compare_calls(const NodeGroup& node, const Call& call) {
  const int rank = node.rank_of(node.own());
  const std::optional<PartCounts> own_parts = part_counts(call, rank, node.group_size());
  for (std::size_t peer = 0; peer < node.size(); ++peer) {
    if (peer == node.own()) continue;
    // The peer shows the record of a call before its print. So a record that is not there after its print was seen is
    // gone, and not yet to come.
    const bool was_shown =
        print_of(node, peer, call.sequence).sequence.load(std::memory_order_acquire) == call.sequence;
    const CallRecord* theirs = record_of(node, peer, call.sequence);
    if (theirs == nullptr) {
      if (was_shown) compare_with_past_call(node, peer, call);
      continue;
    }
    const bool alike = theirs->fingerprint.load(std::memory_order_relaxed) == call.fingerprint;
    const std::string parts =
        alike && own_parts ? part_difference(rank, *own_parts, node.rank_of(peer), theirs->parts) : "";
    if (alike && parts.empty()) continue;
    const CallRecord* ours = record_of(node, node.own(), call.sequence);
    const std::string own = ours == nullptr ? internal::describe(call) : describe(*ours);
    const std::string other = describe(*theirs);
    // A rank that is far ahead may have overwritten the record meanwhile. Then the two ranks do not take part in the
    // same call.
    if (record_of(node, peer, call.sequence) == nullptr) continue;
    if (alike) {
      throw Error(ErrorKind::mismatch,
                  parts + ": rank " + std::to_string(node.rank_of(node.own())) + " calls " + own + ", rank " +
                      std::to_string(node.rank_of(peer)) + " calls " + other,
                  node.rank_of(peer));
    }
    throw Error(ErrorKind::mismatch, describe_difference(node.rank_of(node.own()), own, node.rank_of(peer), other),
                node.rank_of(peer));
  }
}

}  // namespace ddp::internal

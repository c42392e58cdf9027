#include "runtime/group/group_runner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/backend/backend_errors.h"
#include "runtime/group/group_core.h"
#include "runtime/group/group_errors.h"
#include "runtime/peers/lost_rank.h"
#include "runtime/peers/mismatch_check.h"
#include "runtime/peers/node_group.h"
#include "runtime/progress/error_file.h"
#include "runtime/progress/state_gate.h"

namespace ddp::internal {
namespace {

// Returns whether no rank gives or gets anything. Each rank can see this in its own call.
bool moves_nothing(const Call& call) {
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::broadcast:
      return call.output.count == 0;
    case Operation::all_gather:
      return call.output.count == 0 && std::all_of(call.output_parts.begin(), call.output_parts.end(),
                                                   [](const Buffer& part) { return part.count == 0; });
    case Operation::reduce_scatter:
      return call.input.count == 0;
    default:
      return false;
  }
}

}  // namespace

// Describes a rank's call to the ranks of other nodes.
struct GroupRunner::Statement {
  std::uint64_t fingerprint = 0;
  PartCounts parts;
  std::array<char, 248> text{};
};

GroupRunner::GroupRunner(const GroupDescription& description, std::shared_ptr<Backend> backend,
                         std::shared_ptr<GroupProgress> progress)
    : group_(description.name),
      rank_(description.options.rank),
      size_(description.options.size),
      world_ranks_(description.options.world_ranks),
      node_(description.options.node_group),
      lost_rank_(description.options.lost_rank),
      compares_all_(description.detail && !(node_ && node_->holds_all())),
      backend_(std::move(backend)),
      progress_(std::move(progress)) {}

bool GroupRunner::begin(std::span<const Call* const> calls, Begin function) {
  std::vector<const Call*> moving;
  for (const Call* call : calls) {
    guarded(*call, [&] { show(*call); });
    if (!is_transfer(call->operation) && compares_all_) return false;
    if (!moves_nothing(*call)) moving.push_back(call);
  }
  if (moving.empty()) return false;
  // It is unknown which of several calls failed to begin, so the first one is named.
  const bool begun = guarded(*calls.front(), [&] { return (*backend_.*function)(moving); });
  for (const Call* call : calls) {
    if (begun) progress_->started(*call);
  }
  return begun;
}

void GroupRunner::run(const Call& call) {
  guarded(call, [&] {
    show(call);
    progress_->started(call);  // to compare the calls of all ranks is a part of it
    if (!is_transfer(call.operation) && compares_all_) compare_all(call);
    if (!moves_nothing(call)) backend_->run(call);
  });
  if (NodeChannel::Side* side = side_of(call); side != nullptr) side->done = call.sequence;
  if (node_ && !is_transfer(call.operation)) node_->own_area().done = call.sequence;
  if (progress_->records(call)) {
    if (const auto span = backend_->gpu_span(call)) progress_->ran_on_gpu(call, span->begin, span->end);
  }
  progress_->finished(call);
}

void GroupRunner::abort() {
  if (node_) node_->say_failed();
  backend_->abort();
  progress_->failed();
}

std::string GroupRunner::describe(const Call& call) const {
  return "rank " + std::to_string(rank_) + (group_ == "world" ? "" : " of group '" + group_ + "'") + ": " +
         internal::describe(call);
}

OperationError::Operation GroupRunner::identify(const Call& call) const {
  return {group_, rank_, std::string(to_string(call.operation)), call.sequence};
}

// Returns where this rank shows its side of the transfer. Returns null for collectives, and if the peer is on another
// node.
NodeChannel::Side* GroupRunner::side_of(const Call& transfer) const {
  if (!node_ || !is_transfer(transfer.operation) || !node_->holds(transfer.peer)) return nullptr;
  const std::size_t peer = node_->index_of(transfer.peer);
  return transfer.operation == Operation::send ? &node_->channel(node_->own(), peer).sends
                                               : &node_->channel(peer, node_->own()).receives;
}

void GroupRunner::show(const Call& call) {
  if (!node_ || shown_ >= call.sequence) return;
  shown_ = call.sequence;
  if (is_transfer(call.operation)) {
    if (NodeChannel::Side* side = side_of(call); side != nullptr) side->called = call.sequence;
    return;
  }
  show_call(*node_, call);
  node_->own_area().shown.store(call.sequence, std::memory_order_release);
  if (!compares_all_) compare_calls(*node_, call);
}

// Compares calls between nodes. Before the collective, another collective runs, in which each rank describes its call.
// So all ranks see a difference.
void GroupRunner::compare_all(const Call& call) {
  const std::optional<PartCounts> parts = part_counts(call, rank_, size_);
  const std::string text = describe_with_place(call);
  Statement own{call.fingerprint, parts.value_or(PartCounts()), {}};
  std::copy_n(text.begin(), std::min(text.size(), own.text.size() - 1), own.text.begin());
  std::vector<Statement> all(static_cast<std::size_t>(size_));
  Call question;
  question.operation = Operation::all_gather;
  question.input = {&own, sizeof own, DataType::u8};
  question.output = {all.data(), all.size() * sizeof own, DataType::u8};
  question.timeout = call.timeout;
  question.sequence = call.sequence | kOwnCalls;
  question.fingerprint = fingerprint_of(question, size_);
  backend_->run(question);
  for (int other = 0; other < size_; ++other) {
    const Statement& said = all[static_cast<std::size_t>(other)];
    if (said.fingerprint == own.fingerprint) continue;
    throw Error(ErrorKind::mismatch, describe_difference(rank_, text, other, said.text.data()), other);
  }
  if (parts) require_parts_fit(all);
}

// All ranks find the same first difference.
void GroupRunner::require_parts_fit(std::span<const Statement> all) const {
  for (int rank = 0; rank < size_; ++rank) {
    for (int other = rank + 1; other < size_; ++other) {
      const Statement& one = all[static_cast<std::size_t>(rank)];
      const Statement& two = all[static_cast<std::size_t>(other)];
      const std::string difference = part_difference(rank, one.parts, other, two.parts);
      if (difference.empty()) continue;
      throw parts_error(difference, rank, one.text.data(), other, two.text.data(), rank == rank_ ? other : rank);
    }
  }
}

template <typename Action>
decltype(std::declval<Action>()()) GroupRunner::guarded(const Call& call, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    fail(call, error);
  }
}

void GroupRunner::fail(const Call& call, const Error& error) {
  const Error reported = cause_of(call, error);
  if (!is_transfer(call.operation)) {
    if (node_) node_->say_failed();
    backend_->abort();
    progress_->failed();
  }
  // The error of a mismatch already names both places.
  const std::string place =
      reported.kind() == ErrorKind::mismatch ? "" : place_in_program(call.site.file, call.site.line);
  const bool is_programs_doing = reported.kind() == ErrorKind::timeout && call.is_programs_timeout;
  const std::string whose = is_programs_doing ? " (a timeout that the program set)" : "";
  const OperationError failure(reported.kind(), describe(call) + ": " + reported.what() + whose + place,
                               reported.peer(), identify(call));
  // The launcher uses the record to distinguish a secondary failure from the rank that failed first. An aborted
  // operation is not recorded, because it has another cause.
  if (failure.kind() != ErrorKind::aborted)
    record_error(failure.kind(), failure.what(), world_rank_of(reported.peer(), world_ranks_));
  if (failure.kind() == ErrorKind::peer_lost) StateGate::of_process().before_failure();
  throw failure;
}

// Returns the cause that the ranks of this node show, or the backend's error if they show none.
Error GroupRunner::cause_of(const Call& call, const Error& error) const {
  std::optional<Error> cause;
  // If the ranks have called different operations, that is the cause, whatever the backend reports.
  if (node_ && !is_transfer(call.operation) && error.kind() != ErrorKind::mismatch) cause = difference(call);
  if (!cause && error.peer() == Error::kNobody) {
    if (error.kind() == ErrorKind::timeout) cause = late_peers(call, error);
    if (error.kind() == ErrorKind::peer_lost) cause = dead_peer(error);
  }
  // A rank that has failed may have failed because another rank ended without a report.
  if (!cause && error.kind() == ErrorKind::peer_lost && has_failed(error.peer())) cause = dead_peer(error);
  const Error reported = cause.value_or(error);
  return lost_rank_ ? lost_rank_->agree(reported) : reported;
}

std::optional<Error> GroupRunner::difference(const Call& call) const {
  try {
    compare_calls(*node_, call);
    return std::nullopt;
  } catch (const Error& mismatch) {
    return mismatch;
  }
}

// Names the ranks of this node that have not arrived at this collective. The backend knows only that some rank has not.
std::optional<Error> GroupRunner::late_peers(const Call& call, const Error& error) const {
  std::vector<int> late;
  for (std::size_t peer = 0; node_ && !is_transfer(call.operation) && peer < node_->size(); ++peer) {
    if (peer != node_->own() && node_->area(peer).shown < call.sequence) late.push_back(node_->rank_of(peer));
  }
  if (late.empty()) return std::nullopt;
  return late_in_backend_error(late_error(std::move(late), call.timeout), error);
}

bool GroupRunner::has_failed(int rank) const {
  return node_ && node_->holds(rank) && node_->area(node_->index_of(rank)).state == RankState::failed;
}

// Names a rank of this node that has ended without a report. The backend knows only that some rank has ended.
std::optional<Error> GroupRunner::dead_peer(const Error& error) const {
  for (std::size_t peer = 0; node_ && peer < node_->size(); ++peer) {
    if (peer == node_->own() || node_->area(peer).state != RankState::working || !node_->gone(peer)) continue;
    return exited_error(node_->rank_of(peer), error);
  }
  return std::nullopt;
}

}  // namespace ddp::internal

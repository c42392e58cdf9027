// Verdict says which ranks wait in an operation, and for which ranks. docs/reference/diagnoses.md explains each kind
// to users.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/ranks/rank_view.h"

namespace ddp::launcher {

// The enumerators are in the order of their codes.
enum class VerdictKind : std::uint8_t {
  ended,                // H01: a rank has ended, and others wait for it
  stopped,              // H02: a rank is stopped by SIGSTOP or a debugger
  not_called,           // H03: a rank has not called the operation in which others wait
  different_call,       // H04: ranks called different collectives
  different_arguments,  // H05: ranks called the same collective with another type, count, reduction or root
  each_other,           // H06: ranks wait for each other in different groups
  transport,            // H07: all ranks have called, and the operation makes no progress
  silent,               // H08: no rank waits in a collective, and no rank does anything
  behind,               // H09: of ranks that show only heartbeats, some have stopped or do something else
  gpu_behind,           // H10: all ranks have called, and the GPUs of some have not begun the collective
};

// Returns whether no rank waits in a collective.
constexpr bool is_without_calls(VerdictKind kind) {
  return kind == VerdictKind::silent || kind == VerdictKind::behind;
}

// Returns whether all ranks have called and the operation makes no progress. Then no rank in particular is awaited.
constexpr bool all_wait(VerdictKind kind) {
  return kind == VerdictKind::transport || kind == VerdictKind::gpu_behind;
}

// Returns whether the ranks' calls differ, so that they can never finish.
constexpr bool differs(VerdictKind kind) {
  return kind == VerdictKind::different_call || kind == VerdictKind::different_arguments;
}

// Returns text such as "DDP-H03".
constexpr std::string_view code_of(VerdictKind kind) {
  constexpr std::array<std::string_view, 10> kCodes = {"DDP-H01", "DDP-H02", "DDP-H03", "DDP-H04", "DDP-H05",
                                                       "DDP-H06", "DDP-H07", "DDP-H08", "DDP-H09", "DDP-H10"};
  return kCodes[static_cast<std::size_t>(kind)];
}
// Returns text such as "not called".
constexpr std::string_view title_of(VerdictKind kind) {
  constexpr std::array<std::string_view, 10> kTitles = {"ended",
                                                        "stopped",
                                                        "not called",
                                                        "different collective",
                                                        "different arguments",
                                                        "wait for each other",
                                                        "transport",
                                                        "no sign of life",
                                                        "behind",
                                                        "GPU behind"};
  return kTitles[static_cast<std::size_t>(kind)];
}

// This is the name of an operation that the stack of a thread shows if it waits for work that it has given to its GPU.
// Collectives of NCCL may be part of that work.
inline constexpr std::string_view kGpuSynchronization = "GPU synchronization";

// Represents a call of one rank.
struct RankCall {
  int rank = 0;
  CallView call;

  friend bool operator==(const RankCall&, const RankCall&) = default;
};

struct Verdict {
  VerdictKind kind = VerdictKind::silent;
  std::string group;  // name of the group; empty for `silent`
  int group_size = 0;
  std::uint64_t sequence = 0;  // number of the collective in which ranks wait
  std::string call;            // as a waiting rank calls it: "all_reduce sum f32[10] ('bucket 0')"; may be empty
  std::vector<int> culprits;   // ranks, ascending; empty for `transport` and `silent`
  std::vector<int> waiting;    // ranks, ascending
  std::vector<int> finished;   // ranks on which it is done, ascending (only for `transport` and `gpu_behind`)
  // For different_call and different_arguments, these are the first calls that differ: the call of most ranks, and the
  // call of a culprit. If both sides have as many ranks, it is unknown which is wrong, and all of them are culprits.
  std::vector<RankCall> sides;
  bool is_open = false;          // ranks that have not called yet may show which side is wrong
  std::vector<RankCall> around;  // calls before the difference, which are the same, and calls after it, in order
  bool is_partial = false;       // nothing is known of some ranks of the group, for example of those on other nodes
  std::uint64_t group_identity = 0;
  // This is set for a send or a receive. `call` is the call that the other side has to make, and `sequence` counts the
  // transfers of this kind between the two ranks.
  bool is_transfer = false;
  std::uint64_t called_at = 0;  // when the later side called the transfer; 0 if unknown, or if one has not called it
  // For each_other, this is set if every thread of these ranks that could act waits in the circle without a time-out
  // set by the program.
  bool is_blocked = false;
  bool is_by_stack = false;  // read from stacks, so the group and the number are unknown and nothing is certain
  bool is_held = false;      // called within a CollectiveBatch, and not begun (only for not_called)
  // For `ended`: it is unknown whether the culprits called the operation before their end, or whether others need them
  // in it. For calls that differ: it is unknown whether that keeps them from being done. Such a verdict is reported, and
  // proves nothing.
  bool is_doubtful = false;
  // For `not_called`: ranks that have not called it either, because they wait for a culprit in these operations, which
  // stacks show.
  std::vector<RankCall> through;

  GroupKey key() const { return key_of(group_identity, group, group_size); }
  // Returns whether the sides of a difference are known. Nodes show only fingerprints, and describe the calls on
  // request.
  bool is_described() const {
    return std::ranges::none_of(sides, [](const RankCall& side) { return side.call.what.empty(); });
  }
  // Returns whether no thread of these ranks is left that could make the call for which another one waits.
  bool is_proven_circle() const { return kind == VerdictKind::each_other && !is_partial && is_blocked; }
  // Returns whether the group's rank has called the collective and has not finished it.
  bool is_under_way_in(const GroupView& view) const {
    return key_of(view) == key() && view.called >= sequence && view.finished < sequence;
  }
  bool blames(int rank) const { return std::ranges::find(culprits, rank) != culprits.end(); }

  // Returns whether both verdicts are about the same stall. New evidence may change the kind of a stall.
  bool is_of(const Verdict& other) const {
    return key() == other.key() && sequence == other.sequence && is_transfer == other.is_transfer;
  }
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

}  // namespace ddp::launcher

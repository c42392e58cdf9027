// What is wrong with a job that does not go on: a pure function of what its ranks are at.
// docs/explanation/hangs.md explains each kind to users.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/rank_view.h"

namespace ddp::launcher {

// The order is that of the codes.
enum class VerdictKind : std::uint8_t {
  ended,                // H01: a rank has ended and others wait for it
  stopped,              // H02: SIGSTOP, or a debugger
  not_called,           // H03: a rank has not called what others wait in
  different_call,       // H04: ranks called different collectives
  different_arguments,  // H05: the same one, of another type, count, reduction or root
  each_other,           // H06: ranks wait for each other in different groups
  transport,            // H07: all ranks have called, and it does not go on
  silent,               // H08: nobody waits in a collective, and nobody does anything
  behind,               // H09: ranks that show heartbeats only: some have stopped, or do something else
  gpu_behind,           // H10: all ranks have called, and the GPUs of some have not begun it
};

// Nobody waits in a collective.
constexpr bool is_without_calls(VerdictKind kind) {
  return kind == VerdictKind::silent || kind == VerdictKind::behind;
}

// No rank in particular is waited for: all have called, and it does not go on.
constexpr bool all_wait(VerdictKind kind) {
  return kind == VerdictKind::transport || kind == VerdictKind::gpu_behind;
}

// What ranks called can never go on together.
constexpr bool differs(VerdictKind kind) {
  return kind == VerdictKind::different_call || kind == VerdictKind::different_arguments;
}

std::string_view code_of(VerdictKind kind);   // "DDP-H03"
std::string_view title_of(VerdictKind kind);  // "not called"

// What a rank called.
struct RankCall {
  int rank = 0;
  CallView call;

  friend bool operator==(const RankCall&, const RankCall&) = default;
};

struct Verdict {
  VerdictKind kind = VerdictKind::silent;
  std::string group;  // its name; empty for silent
  int group_size = 0;
  std::uint64_t sequence = 0;  // of the collective that some wait in
  std::string call;            // "all_reduce sum f32[10] ('bucket 0')", as a rank that waits calls it; may be empty
  std::vector<int> culprits;   // ascending; of `transport` and `silent` nobody in particular
  std::vector<int> waiting;    // ascending
  // Of different_call and different_arguments the first calls that differ: that of most ranks, and a culprit's. Where
  // as many ranks called one thing as the other nobody can say who is wrong: all of them are culprits.
  std::vector<RankCall> sides;
  bool is_open = false;          // ranks that have not called yet may show who is wrong
  std::vector<RankCall> around;  // their calls before, which are the same, and after that; in order
  bool is_partial = false;       // the group has ranks on other nodes, of which nothing is known
  std::uint64_t group_identity = 0;
  // Of a send or a receive: `call` is what the other side has to call, `sequence` counts those of its kind between two
  // ranks.
  bool is_transfer = false;
  // Of each_other: every thread of these ranks that could do something waits in the circle, without a time-out of the
  // program's.
  bool is_blocked = false;
  bool is_by_stack = false;  // read from stacks: the group and the number are unknown, and nothing is certain
  bool is_held = false;      // of not_called: it has been called, and not begun: within a CollectiveBatch

  GroupKey key() const { return key_of(group_identity, group, group_size); }
  // Of a difference: whether its sides are known. Nodes show fingerprints only, and what they mean if they are asked.
  bool is_described() const {
    return std::ranges::none_of(sides, [](const RankCall& side) { return side.call.what.empty(); });
  }
  // None of the ranks has a thread left that could make the call that another one waits for.
  bool is_proven_circle() const { return kind == VerdictKind::each_other && !is_partial && is_blocked; }
  // The group's rank has called the collective, and it is not finished there.
  bool is_under_way_in(const GroupView& view) const {
    return key_of(view) == key() && view.called >= sequence && view.finished < sequence;
  }
  bool blames(int rank) const { return std::ranges::find(culprits, rank) != culprits.end(); }

  // Whether it is still the same stall: evidence may change its kind.
  bool is_of(const Verdict& other) const {
    return key() == other.key() && sequence == other.sequence && is_transfer == other.is_transfer;
  }
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// What is wrong, one for each cause: independent groups of ranks may wait for different ones. A rank that waits itself
// is no culprit, but waits for one; ranks that wait for each other in a circle are one cause
// together. Empty: no rank waits. Never `silent`, which takes time to know.
std::vector<Verdict> find_verdicts(std::span<const RankView> ranks);

// Where ranks called different things, whether they still wait, or failed, or ended. Nothing: nowhere.
std::optional<Verdict> find_difference(std::span<const RankView> ranks);

// Of a rank that has ended: a collective that it called and that is not finished, also of groups that failed if
// `failed_too`.
std::optional<Verdict> find_unfinished(const RankView& rank, bool failed_too);

// Of ranks that show no collectives: those whose first thread waits for something of its own (it sleeps) while that of
// the others waits for messages or other threads. Empty where they all do the same, or that is not known.
std::vector<int> find_odd_ranks(std::span<const RankView> ranks);

// Whether a rank that has a collective under way waits for it: a thread of it does, or asks again and again whether it
// is done. One that does something else meanwhile waits for nobody. Of a program that does not say what its threads do,
// and of one that may wait for its GPU, it is taken to wait.
bool may_wait(const RankView& rank);

// Whether a group of it puts its collectives on a GPU's stream.
bool uses_gpu(const RankView& rank);

// Of two ranks' calls of the same number that differ: different_call or different_arguments.
VerdictKind compare_calls(const CallView& one, const CallView& other);

}  // namespace ddp::launcher

#include "launcher/see/explain/hang_records.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "launcher/see/explain/hang_choice.h"
#include "launcher/see/explain/hang_groups.h"
#include "launcher/see/explain/hang_p2p.h"

namespace ddp::launcher {
namespace {

// The inputs of these have the same number of elements on all ranks.
constexpr std::array<std::string_view, 8> kEqualSizes = {
    "all_reduce",       "allreduce_coalesced",  "broadcast",          "reduce",
    "_all_gather_base", "_reduce_scatter_base", "all_reduce_barrier", "_broadcast_oop"};

// These can end on no rank before all ranks have called them.
constexpr std::array<std::string_view, 14> kOfAllRanks = {"all_reduce",
                                                          "allreduce_coalesced",
                                                          "allreduce",
                                                          "all_reduce_barrier",
                                                          "barrier",
                                                          "all_gather",
                                                          "_all_gather_base",
                                                          "all_to_all",
                                                          "alltoall_base",
                                                          "reduce_scatter",
                                                          "allgather",
                                                          "_reduce_scatter_base",
                                                          "reduce_scatter_tensor_coalesced",
                                                          "all_gather_into_tensor_coalesced"};

bool has_equal_sizes(std::string_view operation) {
  return std::find(kEqualSizes.begin(), kEqualSizes.end(), operation) != kEqualSizes.end();
}

bool needs_all_ranks(std::string_view operation) {
  return std::find(kOfAllRanks.begin(), kOfAllRanks.end(), operation) != kOfAllRanks.end();
}

std::string missing_records(const std::vector<int>& ranks, const HangGroup& group) {
  if (ranks.empty()) return "";
  std::string text = "the records of " + base::ranks_text(ranks);
  if (group.knows_all_ranks) text += " of " + std::to_string(group.ranks.size());
  return text;
}

struct Called {
  int rank = 0;
  bool is_dump = false;
  const RecordedCall* call = nullptr;
};

// Returns the collectives of all ranks, by number and then by rank.
std::vector<Called> calls_by_number(const HangGroup& group, std::int64_t last) {
  std::vector<Called> all;
  for (const auto& [rank, member] : group.members) {
    for (const RecordedCall& call : member.calls) {
      if (!call.is_p2p && call.number <= last && !call.operation.empty()) all.push_back({rank, member.is_dump, &call});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Called& a, const Called& b) { return a.call->number < b.call->number; });
  return all;
}

// Returns what the ranks called under one number, if it differs. `with_sizes` compares the inputs, too.
std::vector<CallOfRanks> different_calls(std::span<const Called> calls, bool with_sizes) {
  // PyTorch's report about all ranks has no sizes, and lines have no types.
  with_sizes =
      with_sizes && std::all_of(calls.begin(), calls.end(), [](const Called& one) { return one.call->numel_in; });
  const bool has_types =
      std::all_of(calls.begin(), calls.end(), [](const Called& one) { return !one.call->type.empty(); });
  std::map<std::tuple<bool, std::string, std::int64_t, std::string>, CallOfRanks> by_call;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool is_several =
        (i > 0 && calls[i - 1].rank == calls[i].rank) || (i + 1 < calls.size() && calls[i + 1].rank == calls[i].rank);
    if (is_several) continue;  // they were started together
    const RecordedCall& call = *calls[i].call;
    const bool compares = with_sizes && has_equal_sizes(call.operation);
    CallOfRanks& same = by_call[{calls[i].is_dump, call.operation, compares ? *call.numel_in : -1,
                                 compares && has_types ? call.type : std::string()}];
    same.call = call;
    same.ranks.push_back(calls[i].rank);
  }
  for (const bool is_dump : {true, false}) {  // the names of lines and dumps are not compared with each other
    std::vector<CallOfRanks> different;
    for (const auto& [key, one] : by_call) {
      if (std::get<0>(key) == is_dump) different.push_back(one);
    }
    if (different.size() >= 2) return different;
  }
  return {};
}

HangFinding mismatch_of(const HangGroup& group, std::vector<CallOfRanks> calls) {
  HangFinding finding = finding_about(group, HangKind::mismatch);
  std::stable_sort(calls.begin(), calls.end(),
                   [](const CallOfRanks& a, const CallOfRanks& b) { return a.ranks.size() > b.ranks.size(); });
  std::size_t count = 0;
  for (const CallOfRanks& one : calls) count += one.ranks.size();
  finding.call = calls.front().call;
  const bool has_majority = 2 * calls.front().ranks.size() > count;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::vector<int>& ranks = has_majority && i > 0 ? finding.culprits : finding.waiting;
    ranks.insert(ranks.end(), calls[i].ranks.begin(), calls[i].ranks.end());
  }
  std::sort(finding.waiting.begin(), finding.waiting.end());
  std::sort(finding.culprits.begin(), finding.culprits.end());
  finding.calls = std::move(calls);
  return finding;
}

// Returns the first number under which the ranks called different operations, up to the last one, whose inputs are
// compared, too.
std::optional<HangFinding> mismatch_in(const HangGroup& group, std::int64_t last) {
  const std::vector<Called> all = calls_by_number(group, last);
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    const std::int64_t number = all[begin].call->number;
    while (end < all.size() && all[end].call->number == number) ++end;
    const std::span<const Called> of_number(all.data() + begin, end - begin);
    std::vector<CallOfRanks> different = different_calls(of_number, number == last);
    if (!different.empty()) return mismatch_of(group, std::move(different));
  }
  return std::nullopt;
}

// PyTorch 2.1 and 2.2 do not print the group of a call, so that calls of several groups can't be distinguished.
HangFinding judge_nameless(const HangGroup& group) {
  HangFinding finding = finding_about(group, HangKind::cannot_be_decided);
  std::optional<RecordedCall> call;
  bool is_same = true;
  for (const auto& [rank, member] : group.members) {
    const auto number = member.pending();
    if (!number) continue;
    const RecordedCall* one = member.call(*number);
    is_same =
        is_same && one != nullptr && (!call || (call->number == one->number && call->operation == one->operation));
    if (one != nullptr && !call) call = *one;
    finding.waiting.push_back(rank);
  }
  if (finding.waiting.empty()) return finding_about(group, HangKind::none);
  if (call && is_same) finding.call = *call;
  finding.ranks_in_group = 0;
  finding.missing = "the process group, which the lines do not name";
  return finding;
}

// A call that needs all ranks can't have completed if one of them has not called it. It has failed, or the records of
// that rank are older. Returns the number of the first such call of Gloo, whose recorder does not distinguish these.
std::optional<std::int64_t> first_failed(const HangGroup& group) {
  std::optional<std::int64_t> least;
  for (const auto& [rank, member] : group.members) {
    if (member.is_dump && member.last_enqueued)
      least = std::min(least.value_or(*member.last_enqueued), *member.last_enqueued);
  }
  std::optional<std::int64_t> number;
  for (const auto& [rank, member] : group.members) {
    for (const RecordedCall& call : member.calls) {
      const bool is_later = least && !call.is_p2p && call.number > *least && call.state == CallState::ended;
      if (is_later && needs_all_ranks(call.operation)) number = std::min(number.value_or(call.number), call.number);
    }
  }
  return number;
}

// Where the ranks of a group stand with respect to the call with a number.
struct Standing {
  std::vector<int> culprits;     // have not called it
  std::vector<int> waiting;      // have called it, and it has not ended there
  std::vector<int> not_started;  // have called it, but their GPU has not started it, as that of others has
  std::vector<int> without;      // left no records
  std::vector<int> older;        // have called later ones since their records were written
  bool may_have_failed = false;  // the call is open on no rank
  std::int64_t completed = 0;    // the last call that has ended on a waiting rank
  RecordedCall call;
};

// Returns the last call that all ranks have called for certain, because it needs all of them and has completed.
std::int64_t last_of_all(const HangGroup& group) {
  std::int64_t last = 0;
  for (const auto& [rank, member] : group.members) {
    for (const RecordedCall& call : member.calls) {
      const bool is_of_all = member.is_dump && call.state == CallState::completed && needs_all_ranks(call.operation);
      if (is_of_all && !call.is_p2p) last = std::max(last, call.number);
    }
  }
  return last;
}

Standing standing_at(const HangGroup& group, std::int64_t number, bool has_failed) {
  const std::int64_t of_all = last_of_all(group);
  Standing all;
  all.call.number = number;
  bool has_started = false;
  bool has_open = false;
  for (const int rank : group.ranks) {
    const auto found = group.members.find(rank);
    if (found == group.members.end() || !found->second.last_enqueued) {
      all.without.push_back(rank);
      continue;
    }
    const HangMember& member = found->second;
    if (member.is_dump && *member.last_enqueued < of_all) {
      all.older.push_back(rank);
      continue;
    }
    if (*member.last_enqueued < number) {
      all.culprits.push_back(rank);
      continue;
    }
    const RecordedCall* call = member.call(number);
    if (call != nullptr && call->state == CallState::started) has_started = true;
    if (call != nullptr && call->state == CallState::enqueued) all.not_started.push_back(rank);
    const auto pending = member.pending();
    const bool is_open = call == nullptr ? pending && *pending <= number : call->is_open();
    if (!is_open && !(has_failed && call != nullptr)) continue;
    has_open = has_open || is_open;
    all.waiting.push_back(rank);
    all.completed = std::max(all.completed, member.last_completed.value_or(0));
    if (all.call.operation.empty() && call != nullptr) all.call = *call;
  }
  if (!has_started) all.not_started.clear();
  all.may_have_failed = !has_open;
  return all;
}

HangFinding judge_collectives(const HangGroup& group) {
  const std::optional<std::int64_t> failed = first_failed(group);
  std::optional<std::int64_t> first = failed;
  std::optional<std::int64_t> last = failed;
  bool is_mixed = false;
  for (const auto& [rank, member] : group.members) {
    const auto pending = member.pending();
    if (pending && (!first || *pending < *first)) first = pending;
    raise_to(last, pending);
    is_mixed = is_mixed || member.has_mixed_numbers;
  }
  if (!first) return finding_about(group, HangKind::none);
  if (group.name.empty() && !group.is_report) return judge_nameless(group);

  Standing all = standing_at(group, *first, failed == first);
  // If all ranks have called the first open call, another one may be behind it that not all have called.
  for (const std::optional<std::int64_t> later : {failed, last}) {
    if (!all.culprits.empty() || !later || *later <= *first) continue;
    Standing behind = standing_at(group, *later, failed == later);
    if (!behind.culprits.empty()) all = std::move(behind);
  }
  HangFinding finding = finding_about(group, HangKind::cannot_be_decided);
  finding.call = all.call;
  finding.waiting = all.waiting;
  if (is_mixed) {
    for (const auto& [rank, member] : group.members) {
      for (const RecordedCall& call : member.calls) {
        if (call.is_p2p && call.number == *first) finding.call = call;
      }
    }
    finding.missing = "separate numbers of collectives and point-to-point calls, which PyTorch mixes here";
    return finding;
  }
  if (auto mismatch = mismatch_in(group, all.call.number)) return *mismatch;
  for (const int rank : all.culprits) {
    const HangMember& member = group.members.at(rank);
    if (member.is_dump || *member.last_enqueued >= all.completed) continue;
    finding.missing = "consistent numbers: rank " + std::to_string(rank) + " has called only " +
                      std::to_string(*member.last_enqueued) + ", but #" + std::to_string(all.completed) + " has ended";
    return finding;
  }
  finding.missing = missing_records(all.without, group);
  if (!all.older.empty()) {
    finding.missing +=
        (finding.missing.empty() ? "" : ", and ") + std::string("newer records of ") + base::ranks_text(all.older);
  }
  finding.not_started = all.not_started;
  if (!all.culprits.empty()) {
    finding.kind = HangKind::not_called;
    finding.culprits = all.culprits;
    finding.may_have_failed = all.may_have_failed;
  } else if (group.knows_all_ranks && all.without.empty() && all.older.empty()) {
    finding.kind = HangKind::all_called;
  } else if (finding.missing.empty()) {
    finding.missing = "how many ranks the group has, or the records of its other ranks";
  } else if (!group.knows_all_ranks) {
    finding.missing += ", and how many ranks the group has";
  }
  return finding;
}

// No recorded call waits. A rank without records may.
HangFinding without_hang(const std::vector<HangGroup>& groups) {
  for (const HangGroup& group : groups) {
    std::vector<int> without;
    for (const int rank : group.ranks) {
      if (!group.members.contains(rank)) without.push_back(rank);
    }
    if (without.empty() || group.has_own_ranks) continue;
    HangFinding finding = finding_about(group, HangKind::cannot_be_decided);
    finding.missing = missing_records(without, group);
    return finding;
  }
  return {};
}

}  // namespace

HangFinding judge_hang(std::span<const CollectiveRecords> records, std::optional<int> world_size) {
  std::vector<HangFinding> findings;
  std::set<std::string> texts;  // several ranks print PyTorch's report about the same group
  const auto add = [&](HangFinding finding) {
    if (finding.kind == HangKind::none || !texts.insert(hang_text(finding)).second) return;
    findings.push_back(std::move(finding));
  };
  const std::vector<HangGroup> groups = hang_groups(records, world_size);
  for (const HangGroup& group : groups) {
    add(judge_collectives(group));
    for (const auto& [rank, member] : group.members) {
      if (auto finding = judge_p2p(group, rank, member)) add(std::move(*finding));
    }
  }
  if (findings.empty()) return without_hang(groups);
  return choose_hang(std::move(findings));
}

}  // namespace ddp::launcher

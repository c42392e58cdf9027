#include "launcher/see/explain/hang_records.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "launcher/see/explain/hang_groups.h"

namespace ddp::launcher {
namespace {

// The inputs of these have the same number of elements on all ranks.
constexpr std::string_view kEqualSizes[] = {
    "all_reduce",       "allreduce_coalesced",  "broadcast",          "reduce",
    "_all_gather_base", "_reduce_scatter_base", "all_reduce_barrier", "_broadcast_oop"};

// These can end on no rank before all ranks have called them.
constexpr std::string_view kOfAllRanks[] = {"all_reduce",
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
  return std::ranges::find(kEqualSizes, operation) != std::end(kEqualSizes);
}

bool needs_all_ranks(std::string_view operation) {
  return std::ranges::find(kOfAllRanks, operation) != std::end(kOfAllRanks);
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

// PyTorch may count collectives and point-to-point calls together. Then the numbers of the ranks can't be compared.
HangFinding judge_mixed(const HangGroup& group, HangFinding finding, std::int64_t number) {
  for (const auto& [rank, member] : group.members) {
    for (const RecordedCall& call : member.calls) {
      if (call.is_p2p && call.number == number) finding.call = call;
    }
  }
  finding.missing = "separate numbers of collectives and point-to-point calls, which PyTorch mixes here";
  return finding;
}

// Returns what is missing if a culprit has called less than must have ended on all ranks, or an empty string.
std::string missing_consistency(const HangGroup& group, const Standing& all) {
  for (const int rank : all.culprits) {
    const HangMember& member = group.members.at(rank);
    if (member.is_dump || *member.last_enqueued >= all.completed) continue;
    return "consistent numbers: rank " + std::to_string(rank) + " has called only " +
           std::to_string(*member.last_enqueued) + ", but #" + std::to_string(all.completed) + " has ended";
  }
  return "";
}

std::string missing_of(const HangGroup& group, const Standing& all) {
  std::string text = missing_records(all.without, group);
  if (all.older.empty()) return text;
  return text + (text.empty() ? "" : ", and ") + "newer records of " + base::ranks_text(all.older);
}

// Returns where the ranks stand with respect to the call that keeps them waiting. `first` is the first open call. If
// all ranks have called it, a later one may be behind it that not all have called.
Standing standing_of(const HangGroup& group, std::int64_t first, std::optional<std::int64_t> failed,
                     std::optional<std::int64_t> last) {
  Standing all = standing_at(group, first, failed == first);
  for (const std::optional<std::int64_t> later : {failed, last}) {
    if (!all.culprits.empty() || !later || *later <= first) continue;
    Standing behind = standing_at(group, *later, failed == later);
    if (!behind.culprits.empty()) all = std::move(behind);
  }
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

  const Standing all = standing_of(group, *first, failed, last);
  HangFinding finding = finding_about(group, HangKind::cannot_be_decided);
  finding.call = all.call;
  finding.waiting = all.waiting;
  if (is_mixed) return judge_mixed(group, std::move(finding), *first);
  if (auto mismatch = mismatch_in(group, all.call.number)) return *mismatch;
  finding.missing = missing_consistency(group, all);
  if (!finding.missing.empty()) return finding;
  finding.missing = missing_of(group, all);
  finding.not_started = all.not_started;
  if (!all.culprits.empty()) {
    finding.kind = HangKind::not_called;
    finding.culprits = all.culprits;
    finding.may_have_failed = all.may_have_failed;
  } else if (group.knows_all_ranks && finding.missing.empty()) {
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

struct P2pName {
  bool is_send = false;
  int from = 0;
  int to = 0;
};
std::optional<P2pName> p2p_name(std::string_view operation) {
  const bool is_send = operation.starts_with("send ");
  if (!is_send && !operation.starts_with("recv ")) return std::nullopt;
  operation.remove_prefix(5);
  const std::size_t arrow = operation.find(is_send ? "->" : "<-");
  if (arrow == std::string_view::npos) return std::nullopt;
  const auto first = base::parse_integer(operation.substr(0, arrow), 0, 1'000'000);
  const auto second = base::parse_integer(operation.substr(arrow + 2), 0, 1'000'000);
  if (!first || !second) return std::nullopt;
  const int a = static_cast<int>(*first);
  const int b = static_cast<int>(*second);
  return is_send ? P2pName{true, a, b} : P2pName{false, b, a};
}

std::string opposite_of(const P2pName& name) {
  const std::string from = std::to_string(name.from);
  const std::string to = std::to_string(name.to);
  return name.is_send ? "recv " + to + "<-" + from : "send " + from + "->" + to;
}

std::size_t count_of(const std::vector<RecordedCall>& calls, const std::string& operation) {
  return static_cast<std::size_t>(
      std::count_if(calls.begin(), calls.end(), [&](const RecordedCall& call) { return call.operation == operation; }));
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// Returns the indices of the findings in which the ranks wait that `finding` waits for. Empty if one of these ranks
// waits nowhere: it is the culprit.
std::set<std::size_t> waits_for(std::vector<HangFinding>& findings, std::size_t index) {
  HangFinding& finding = findings[index];
  const bool has_called = finding.kind == HangKind::all_called;
  std::vector<int>& blockers = has_called ? finding.not_started : finding.culprits;
  if (finding.has_ranks_of_group || (finding.kind != HangKind::not_called && !has_called)) return {};
  std::set<std::size_t> targets;
  std::vector<int> free;
  for (const int rank : blockers) {
    bool waits = false;
    for (std::size_t other = 0; other < findings.size(); ++other) {
      const HangFinding& one = findings[other];
      if (other == index || one.has_ranks_of_group || one.group.empty() || !contains(one.waiting, rank)) continue;
      if (has_called && contains(one.not_started, rank)) continue;
      waits = true;
      targets.insert(other);
    }
    if (!waits) free.push_back(rank);
  }
  if (free.empty()) return targets;
  if (!has_called) blockers = std::move(free);
  return {};
}

}  // namespace

std::optional<HangFinding> judge_p2p(const HangGroup& group, int rank, const HangMember& member) {
  std::map<std::string, std::size_t> counts;
  for (const RecordedCall& call : member.calls) {
    const auto name = call.is_p2p ? p2p_name(call.operation) : std::nullopt;
    if (!name) continue;
    const std::size_t count = ++counts[call.operation];
    if (call.state == CallState::completed) continue;
    HangFinding finding = finding_about(group, HangKind::cannot_be_decided);
    finding.call = call;
    finding.waiting = {rank};
    const int own_peer = name->is_send ? name->to : name->from;
    const bool is_known = static_cast<std::size_t>(own_peer) < group.ranks_of_the_job.size();
    const bool is_default = group.name == kDefaultGroup;
    const int peer = is_known ? group.ranks_of_the_job[static_cast<std::size_t>(own_peer)] : is_default ? own_peer : -1;
    const auto found = group.members.find(peer);
    if (peer < 0 || found == group.members.end() || !found->second.is_dump) {
      finding.missing = peer < 0 ? "the ranks of the group" : "the records of rank " + std::to_string(peer);
    } else if (!member.has_all_calls || !found->second.has_all_calls) {
      finding.missing = "the first calls, which the flight recorder no longer has";
    } else if (count_of(found->second.calls, opposite_of(*name)) < count) {
      finding.kind = HangKind::not_called;
      finding.call.operation = opposite_of(*name);
      finding.call.number = static_cast<std::int64_t>(count);
      finding.culprits = {peer};
    } else {
      finding.kind = HangKind::all_called;
    }
    return finding;
  }
  return std::nullopt;
}

HangFinding choose_hang(std::vector<HangFinding> findings) {
  const std::size_t count = findings.size();
  std::vector<std::set<std::size_t>> edges(count);
  for (std::size_t i = 0; i < count; ++i) edges[i] = waits_for(findings, i);
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < count; ++i) {
    if (edges[i].empty()) roots.push_back(i);
  }
  if (roots.empty()) {
    HangFinding finding;
    finding.kind = HangKind::circular_wait;
    finding.waits = std::move(findings);
    for (const HangFinding& one : finding.waits) {
      finding.waiting.insert(finding.waiting.end(), one.waiting.begin(), one.waiting.end());
    }
    std::sort(finding.waiting.begin(), finding.waiting.end());
    finding.waiting.erase(std::unique(finding.waiting.begin(), finding.waiting.end()), finding.waiting.end());
    return finding;
  }
  // Each of the other findings belongs to the first root that it leads to.
  std::map<std::size_t, std::vector<std::size_t>> dependent;
  for (std::size_t i = 0; i < count; ++i) {
    std::set<std::size_t> reached;
    std::vector<std::size_t> open(edges[i].begin(), edges[i].end());
    while (!open.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      if (reached.insert(next).second) open.insert(open.end(), edges[next].begin(), edges[next].end());
    }
    const auto root = std::find_if(roots.begin(), roots.end(), [&](std::size_t one) { return reached.contains(one); });
    if (root != roots.end()) dependent[*root].push_back(i);
  }
  const auto first = std::ranges::min_element(roots, {}, [&](std::size_t root) {
    return std::pair(findings[root].kind == HangKind::cannot_be_decided, -std::ssize(dependent[root]));
  });
  HangFinding finding = findings[*first];
  for (const std::size_t one : dependent[*first]) finding.waits.push_back(findings[one]);
  return finding;
}

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

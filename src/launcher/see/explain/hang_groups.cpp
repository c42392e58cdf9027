#include "launcher/see/explain/hang_groups.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace ddp::launcher {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr int kMostRanksWithoutRecords = 1024;
constexpr int kMostRanksPerRecord = 64;

// A dump knows more than lines do, and is not mixed with them.
void merge(HangMember& member, const CollectiveRecords& records) {
  if (member.is_dump && !records.is_dump) return;
  if (records.is_dump && (!member.is_dump || records.last_enqueued > member.last_enqueued)) member = {};
  raise_to(member.last_enqueued, records.last_enqueued);
  raise_to(member.last_completed, records.last_completed);
  for (const RecordedCall& call : records.calls) {
    const auto known =
        std::find_if(member.calls.begin(), records.is_dump ? member.calls.begin() : member.calls.end(),
                     [&](const RecordedCall& one) { return one.number == call.number && one.is_p2p == call.is_p2p; });
    if (records.is_dump || known == member.calls.end()) {
      member.calls.push_back(call);
    } else if (known->operation.empty()) {
      *known = call;
    }
  }
  member.has_all_calls = member.has_all_calls || records.has_all_calls;
  member.is_dump = records.is_dump;
  member.has_mixed_numbers = member.has_mixed_numbers || records.has_mixed_numbers;
}

// Maps the ranks of a group to those of the job, as far as the records say it.
std::map<int, int> ranks_of_job(const std::vector<const CollectiveRecords*>& records, bool is_world) {
  std::map<int, int> ranks;
  for (const CollectiveRecords* one : records) {
    if (is_world && one->rank_of_group) ranks[*one->rank_of_group] = *one->rank_of_group;
    if (one->rank >= 0 && one->rank_of_group) ranks[*one->rank_of_group] = one->rank;
    for (std::size_t i = 0; i < one->members.size() && i < std::size_t{kMostRanks}; ++i) {
      ranks[static_cast<int>(i)] = one->members[i];
    }
  }
  return ranks;
}

// Returns how many ranks the group has, as far as the records say it.
std::optional<int> size_of(const std::vector<const CollectiveRecords*>& records, std::optional<int> world_size) {
  if (records.front()->group == kDefaultGroup && world_size) return world_size;
  std::optional<int> size;
  for (const CollectiveRecords* one : records) {
    if (one->group_size) size = one->group_size;
    if (!one->members.empty()) size = static_cast<int>(one->members.size());
  }
  return size;
}

// Returns the ranks of a group that has no gaps between its ranks, of which `last` is the last one with records.
std::vector<int> ranks_without_gaps(int last, int size, std::size_t records) {
  // A damaged line may have any rank, so that very large gaps are not filled.
  const int most = kMostRanksWithoutRecords + kMostRanksPerRecord * static_cast<int>(records);
  std::vector<int> all(static_cast<std::size_t>(std::max(size, last < most ? last + 1 : 0)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Returns what the records say of each rank. Records of an unknown rank are left out.
std::map<int, HangMember> members_of(const std::vector<const CollectiveRecords*>& records,
                                     const std::map<int, int>& mapped, bool has_own_ranks) {
  std::map<int, HangMember> members;
  for (const CollectiveRecords* one : records) {
    const bool is_mapped = !has_own_ranks && one->rank < 0 && one->rank_of_group;
    const int own_rank = has_own_ranks ? one->rank_of_group.value_or(-1) : one->rank;
    const int rank = is_mapped ? mapped.at(*one->rank_of_group) : own_rank;
    if (rank >= 0) merge(members[rank], *one);
  }
  return members;
}

HangGroup group_of(const std::vector<const CollectiveRecords*>& records, std::optional<int> world_size) {
  HangGroup group;
  group.name = records.front()->group;
  group.is_report = records.front()->report > 0;
  for (const CollectiveRecords* one : records) {
    if (group.description.empty()) group.description = one->description;
  }
  const std::optional<int> size = size_of(records, world_size);
  // A group with as many ranks as the job has all of them, in their order.
  const bool is_world = group.name == kDefaultGroup || (size && size == world_size);
  const std::map<int, int> mapped = ranks_of_job(records, is_world);
  group.has_own_ranks = std::ranges::any_of(records, [&](const CollectiveRecords* one) {
    return one->rank < 0 && one->rank_of_group && !mapped.contains(*one->rank_of_group);
  });

  group.members = members_of(records, mapped, group.has_own_ranks);
  std::set<int> ranks;
  for (const auto& [rank, member] : group.members) ranks.insert(rank);
  if (!group.has_own_ranks && size == static_cast<int>(mapped.size())) {
    for (const auto& [own, rank] : mapped) group.ranks_of_the_job.push_back(rank);
    ranks.insert(group.ranks_of_the_job.begin(), group.ranks_of_the_job.end());
  }
  if ((is_world || group.has_own_ranks) && !ranks.empty() && size.value_or(0) < kMostRanks) {
    std::vector<int> all = ranks_without_gaps(*ranks.rbegin(), size.value_or(0), records.size());
    ranks.insert(all.begin(), all.end());
    if (is_world && size) group.ranks_of_the_job = std::move(all);
  }
  group.ranks.assign(ranks.begin(), ranks.end());
  // If every rank of the job has left records of the group, no other one can belong to it.
  const int known = static_cast<int>(ranks.size());
  group.knows_all_ranks = size == known || (!group.has_own_ranks && world_size == known);
  return group;
}

}  // namespace

std::optional<std::int64_t> HangMember::pending() const {
  std::optional<std::int64_t> first;
  for (const RecordedCall& call : calls) {
    if (call.is_p2p || !call.is_open()) continue;
    first = std::min(first.value_or(call.number), call.number);
  }
  if (first || is_dump || !last_enqueued || !last_completed || *last_enqueued <= *last_completed) return first;
  return *last_completed + 1;
}

const RecordedCall* HangMember::call(std::int64_t number) const {
  const RecordedCall* found = nullptr;
  for (const RecordedCall& one : calls) {
    if (one.is_p2p || one.number != number) continue;
    if (found != nullptr) return nullptr;  // several calls that were started together
    found = &one;
  }
  return found;
}

std::vector<HangGroup> hang_groups(std::span<const CollectiveRecords> records, std::optional<int> world_size) {
  std::map<std::pair<std::string, int>, std::vector<const CollectiveRecords*>> by_group;
  for (const CollectiveRecords& one : records) {
    const bool is_report = one.group.empty() && one.report > 0;
    by_group[{one.group, is_report ? one.report : 0}].push_back(&one);
  }
  std::vector<HangGroup> groups;
  for (const auto& [key, of_group] : by_group) groups.push_back(group_of(of_group, world_size));
  return groups;
}

HangFinding finding_about(const HangGroup& group, HangKind kind) {
  return {.kind = kind,
          .group = group.name,
          .description = group.description,
          .ranks_in_group = static_cast<int>(group.ranks.size()),
          .has_ranks_of_group = group.has_own_ranks};
}

}  // namespace ddp::launcher

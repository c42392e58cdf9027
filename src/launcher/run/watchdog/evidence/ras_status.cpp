#include "launcher/run/watchdog/evidence/ras_status.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>

#include "launcher/run/ranks/worker_page.h"
#include "launcher/run/watchdog/evidence/ras_text.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;
using Counts = std::map<std::string, std::uint64_t>;

// All members wait for each other in these. They have other names on the page.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOfAll = {{{"AllReduce", "all_reduce"},
                                                                                  {"AllGather", "all_gather"},
                                                                                  {"ReduceScatter", "reduce_scatter"},
                                                                                  {"AlltoAll", "all_to_all"}}};

std::string name_of_function(const std::string& function) {
  const auto* const found = std::ranges::find(kOfAll, function, &std::pair<std::string_view, std::string_view>::first);
  return found == kOfAll.end() ? function : std::string(found->second);
}

bool ends_value(char letter) {
  return letter == '"' || letter == '}' || letter == ']' || (letter >= '0' && letter <= '9') || letter == 'e' ||
         letter == 'l';
}

// NCCL 2.28.9 leaves out the comma at the end of some lines. No valid JSON has a value at the end of a line and a
// string or an object at the beginning of the next one.
std::string with_commas(std::string_view json) {
  std::string text;
  char last = '\0';
  bool is_new_line = false;
  for (const char letter : json) {
    const bool is_space = letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n';
    is_new_line = is_new_line || letter == '\n';
    if (!is_space) {
      if (is_new_line && ends_value(last) && (letter == '"' || letter == '{')) text += ',';
      is_new_line = false;
      last = letter;
    }
    text += letter;
  }
  return text;
}

std::optional<std::int64_t> number_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() || !found->is_number_integer() ? std::nullopt : std::optional(found->get<std::int64_t>());
}

bool is_set(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && (*found == true || (found->is_number_integer() && *found != 0));
}

// A member that leaves its communicator calls nothing more in it.
bool is_leaving(const Json& member) {
  const auto status = member.find("status");
  if (status == member.end() || !status->is_object()) return false;
  return std::ranges::any_of(std::array{"init_state", "finalize_called", "destroy_flag", "abort_flag"},
                             [&](const char* name) { return is_set(*status, name); });
}

std::optional<RasMember> member_of(const Json& json) {
  if (!json.is_object() || is_leaving(json)) return std::nullopt;
  const auto rank = number_in(json, "rank");
  const auto pid = number_in(json, "pid");
  if (!rank || !pid || *rank < 0 || *rank > INT32_MAX || *pid <= 0 || *pid > INT32_MAX) return std::nullopt;
  RasMember member{static_cast<int>(*rank), static_cast<pid_t>(*pid), {}};
  if (const auto host = json.find("host"); host != json.end() && host->is_string()) member.host = *host;
  // The name of this object may change.
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) {
    if (!value.is_object() || name.find("count") == std::string::npos) continue;
    for (const auto& [function, count] : value.get_ref<const Json::object_t&>()) {
      if (count.is_number_unsigned()) member.launched[function] = count.get<std::uint64_t>();
    }
  }
  return member;
}

std::optional<RasCommunicator> communicator_of(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto hash = json.find("hash");
  const auto size = number_in(json, "size");
  const auto ranks = json.find("ranks");
  if (hash == json.end() || !hash->is_string() || !size || *size < 2 || *size > INT32_MAX) return std::nullopt;
  RasCommunicator communicator;
  communicator.hash = std::strtoull(hash->get_ref<const std::string&>().c_str(), nullptr, 16);
  communicator.size = static_cast<int>(*size);
  if (communicator.hash == 0 || ranks == json.end() || !ranks->is_array()) return std::nullopt;
  for (const Json& each : *ranks) {
    auto member = member_of(each);
    if (member && member->rank < communicator.size) communicator.members.push_back(std::move(*member));
  }
  return communicator;
}

std::uint64_t calls_of(const RasMember& member) {
  std::uint64_t calls = 0;
  for (const auto& [function, count] : member.launched) calls += count;
  return calls;
}

// Says what the members of a communicator have in common.
struct Common {
  Counts least;          // what all have launched, by function
  bool is_even = false;  // all have made as many calls, and the counts stand still
};

Common common_of(const RasCommunicator& communicator) {
  Common common{{}, communicator.is_still};
  std::map<std::string, std::size_t> known;
  for (const RasMember& member : communicator.members) {
    for (const auto& [function, count] : member.launched) {
      const auto least = common.least.try_emplace(function, count).first;
      least->second = std::min(least->second, count);
      ++known[function];
    }
    common.is_even = common.is_even && calls_of(member) == calls_of(communicator.members.front());
  }
  for (const auto& [function, members] : known) {
    if (members < communicator.members.size()) common.least[function] = 0;
  }
  return common;
}

GroupView group_of(const RasCommunicator& communicator, const Common& common, const RasMember& member, int place) {
  GroupView group;
  group.name = name_of_communicator(communicator.hash);
  group.identity = communicator.hash;
  group.rank = member.rank;
  group.size = communicator.size;
  group.place = place;
  group.called = calls_of(member);
  LaunchView launches;
  launches.is_named = false;
  for (const auto& [function, count] : member.launched) {
    const bool is_of_all = std::ranges::any_of(kOfAll, [&](const auto& one) { return one.first == function; });
    if (is_of_all && count > common.least.at(function)) launches.waits_for_all = 1;
  }
  // The order of the calls is not known, so a rank that is ahead waits in its last one.
  if (launches.waits_for_all != 0) launches.waits_for_all = group.called;
  group.started = group.finished = group.called;
  group.gpu_queued = group.gpu_started = group.gpu_finished = group.called;
  group.is_sampled = true;
  group.is_live = false;
  group.launches = launches;
  return group;
}

// The counts of a member only grow, and all members call in one order. So if a member is ahead of others in a function,
// and has not made more calls than they have, it has called another one than they have.
std::optional<CallView> different_call(const Common& common, const RasMember& member) {
  if (!common.is_even) return std::nullopt;
  for (const auto& [function, count] : member.launched) {
    if (count <= common.least.at(function)) continue;
    CallView call;
    call.sequence = calls_of(member);
    call.what = name_of_function(function);
    call.fingerprint = std::hash<std::string>()(function) | 1U;
    return call;
  }
  return std::nullopt;
}

// Returns the communicator with the members that a text does not list, or without members if they are not known.
RasCommunicator with_all_members(const RasCommunicator& communicator, const std::vector<RankView>& ranks) {
  if (!communicator.unlisted) return communicator;
  RasCommunicator whole{communicator.hash, communicator.size, {}, std::nullopt, communicator.is_still};
  if (static_cast<std::size_t>(communicator.size) != ranks.size()) return whole;
  for (const RankView& rank : ranks) {
    RasMember member{rank.rank, rank.pid, *communicator.unlisted};
    const auto listed = std::ranges::find(communicator.members, rank.rank, &RasMember::rank);
    const bool is_listed = listed != communicator.members.end();
    if (is_listed && listed->pid != rank.pid) return {communicator.hash, communicator.size, {}};
    if (is_listed) {
      for (const auto& [function, count] : listed->launched) member.launched[function] = count;
    }
    whole.members.push_back(std::move(member));
  }
  return whole;
}

bool is_unknown(const RankView& rank) {
  return rank.page.groups.empty() && rank.page.worlds_entered == 0;
}

// Finds the ranks that members of communicators are.
class RankFinder {
 public:
  RankFinder(const RasStatus& status, const std::vector<RankView>& ranks) : ranks_(ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) by_pid_.emplace(ranks[i].pid, i);
    for (const RasCommunicator& communicator : status) {
      std::set<pid_t> pids;
      for (const RasMember& member : communicator.members) {
        if (!pids.insert(member.pid).second) repeated_.insert(member.pid);
      }
    }
    for (const RasCommunicator& communicator : status) {
      for (const RasMember& member : communicator.members) {
        if (const auto index = find_without_host(communicator, member)) nodes_[member.host].insert(ranks[*index].node);
      }
    }
  }

  std::optional<std::size_t> find(const RasCommunicator& communicator, const RasMember& member) const {
    if (const auto index = find_without_host(communicator, member)) return index;
    const auto nodes = nodes_.find(member.host);
    std::optional<std::size_t> found;
    const auto [first, last] = by_pid_.equal_range(member.pid);
    for (auto one = first; one != last; ++one) {
      if (nodes == nodes_.end() || !nodes->second.contains(ranks_[one->second].node)) continue;
      if (found) return std::nullopt;
      found = one->second;
    }
    return found;
  }

 private:
  std::optional<std::size_t> find_without_host(const RasCommunicator& communicator, const RasMember& member) const {
    const auto [first, last] = by_pid_.equal_range(member.pid);
    if (first != last && std::next(first) == last && !repeated_.contains(member.pid)) return first->second;
    if (static_cast<std::size_t>(communicator.size) != ranks_.size()) return std::nullopt;
    const auto same =
        std::find_if(first, last, [&](const auto& one) { return ranks_[one.second].rank == member.rank; });
    return same == last ? std::nullopt : std::optional(same->second);
  }

  const std::vector<RankView>& ranks_;
  std::set<pid_t> repeated_;                            // pids of several members of one communicator
  std::multimap<pid_t, std::size_t> by_pid_;            // indexes of ranks
  std::map<std::string, std::set<std::string>> nodes_;  // by RAS's name of the host
};

}  // namespace

base::Result<RasStatus> read_ras_status(std::string_view text) {
  if (is_ras_text(text)) return read_ras_text(text);
  Json json = Json::parse(with_commas(text), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return base::Failure{"NCCL's RAS status is no JSON"};
  RasStatus status;
  const auto communicators = json.find("communicators");
  if (communicators == json.end() || !communicators->is_array()) return status;
  for (const Json& each : *communicators) {
    auto communicator = communicator_of(each);
    if (communicator) status.push_back(std::move(*communicator));
  }
  return status;
}

std::map<std::string, std::uint64_t> greatest_counts(const RasCommunicator& communicator) {
  std::map<std::string, std::uint64_t> greatest = communicator.unlisted.value_or(Counts{});
  for (const RasMember& member : communicator.members) {
    for (const auto& [function, count] : member.launched) greatest[function] = std::max(greatest[function], count);
  }
  return greatest;
}

void keep_what_is_left_out(const RasStatus& before, RasStatus& now) {
  for (const RasCommunicator& old : before) {
    auto same = std::ranges::find(now, old.hash, &RasCommunicator::hash);
    // In text, this means that all members have launched the same.
    if (old.unlisted && same == now.end()) same = now.insert(now.end(), {old.hash, old.size, {}, Counts{}});
    if (same == now.end() || old.unlisted.has_value() != same->unlisted.has_value()) continue;
    if (old.unlisted && same->size == 0) {
      *same = old;
      same->is_still = false;
      continue;
    }
    if (old.unlisted) {
      for (const auto& [function, count] : greatest_counts(old)) same->unlisted->try_emplace(function, count);
    }
    for (const RasMember& member : old.members) {
      const bool is_there = std::ranges::find(same->members, member.rank, &RasMember::rank) != same->members.end();
      if (!is_there && !old.unlisted) same->members.push_back(member);
    }
    same->is_still = same->members == old.members && same->unlisted == old.unlisted;
  }
}

bool add_launches(const RasStatus& status, std::vector<RankView>& ranks) {
  if (status.empty()) return false;  // as in nearly every job, for each sample
  RasStatus whole;
  for (const RasCommunicator& communicator : status) whole.push_back(with_all_members(communicator, ranks));
  const RankFinder finder(whole, ranks);
  std::vector<bool> is_wanted;
  for (const RankView& rank : ranks) is_wanted.push_back(is_unknown(rank));
  bool has_added = false;
  for (const RasCommunicator& communicator : whole) {
    const Common common = common_of(communicator);
    for (const RasMember& member : communicator.members) {
      const auto index = finder.find(communicator, member);
      if (!index || !is_wanted[*index]) continue;
      RankView& rank = ranks[*index];
      rank.page.is_written = true;
      rank.page.phase = RankPhase::training;
      const auto place = static_cast<int>(rank.page.groups.size());
      rank.page.groups.push_back(group_of(communicator, common, member, place));
      rank.calls.resize(rank.page.groups.size());
      if (const auto call = different_call(common, member)) rank.calls.back() = {*call};
      rank.arrivals.resize(rank.page.groups.size());
      has_added = true;
    }
  }
  return has_added;
}

bool has_unknown_rank(const std::vector<RankView>& ranks) {
  return std::ranges::any_of(ranks, [](const RankView& rank) { return !rank.has_ended && is_unknown(rank); });
}

}  // namespace ddp::launcher

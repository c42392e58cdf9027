#include "launcher/see/explain/hang_p2p.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "base/text.h"

namespace ddp::launcher {
namespace {

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

}  // namespace ddp::launcher

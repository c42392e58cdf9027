#include "launcher/job/node_comparison.h"

#include <algorithm>
#include <map>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using wire::NodeHello;

// "program train: b0a1… on b, 77c2… on a"; empty: all is the same.
std::string difference(const NodeHello& theirs, const NodeHello& ours) {
  const auto value_of = [](const NodeHello& node, const std::string& name) {
    const auto found = node.same.find(name);
    return found == node.same.end() ? "nothing" : found->second;
  };
  std::map<std::string, std::string> all = ours.same;
  all.insert(theirs.same.begin(), theirs.same.end());
  std::vector<std::string> parts;
  for (const auto& [name, value] : all) {
    const std::string their = base::printable(value_of(theirs, name), limits::kShownName);
    const std::string our = base::printable(value_of(ours, name), limits::kShownName);
    if (value_of(theirs, name) == value_of(ours, name) || parts.size() == limits::kRemarks) continue;
    parts.push_back(base::printable(name, limits::kShownName) + ": " + their + " on " +
                    base::printable(theirs.host, limits::kShownName) + ", " + our + " on " + ours.host);
  }
  return base::join(parts, "; ");
}

}  // namespace

std::chrono::nanoseconds clock_ahead(std::int64_t theirs, std::chrono::nanoseconds ours) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  return std::chrono::nanoseconds(std::clamp<std::int64_t>(theirs, 0, kMost)) - ours;
}

std::string difference_of_kind(const NodeHello& hello, const NodeHello& own, bool is_static, int max_nodes) {
  if (hello.version != wire::kControlVersion) return "it is another version of ddplaunch";
  if (hello.workers < 1 || hello.workers > limits::kWorkersPerNode || hello.node_rank < wire::kAnyNodeRank) {
    return "it has " + std::to_string(hello.workers) + " workers and --node-rank=" + std::to_string(hello.node_rank) +
           ", which no launcher has";
  }
  if (hello.job != own.job) {
    return "it belongs to job '" + base::printable(hello.job, limits::kShownName) + "', and this is job '" + own.job +
           "' (--rdzv-id)";
  }
  if (hello.nodes != own.nodes)
    return "it has --nnodes=" + base::printable(hello.nodes, limits::kShownName) + ", and the first node has " +
           own.nodes;
  const std::string different = difference(hello, own);
  if (!different.empty()) return "it would run something else (" + different + ")";
  const bool has_number = hello.node_rank != wire::kAnyNodeRank;
  const std::string number = "--node-rank=" + std::to_string(hello.node_rank);
  if (!is_static)
    return has_number ? "it has " + number + ", and the first node has none: nodes get their numbers" : "";
  if (!has_number) return "it has no --node-rank, and the first node has one";
  return hello.node_rank < max_nodes ? "" : number + " is none of " + std::to_string(max_nodes) + " nodes";
}

std::vector<Remark> remarks_on(const NodeHello& hello, const NodeHello& own, std::chrono::nanoseconds now) {
  std::vector<Remark> remarks;
  const auto value_of = [](const NodeHello& node, const std::string& name) {
    const auto found = node.alike.find(name);
    return found == node.alike.end() ? "" : found->second;
  };
  std::map<std::string, std::string> all = own.alike;
  all.insert(hello.alike.begin(), hello.alike.end());
  for (const auto& [name, value] : all) {
    if (remarks.size() == limits::kRemarks) break;
    const std::string there = value_of(hello, name);
    const std::string here = value_of(own, name);
    if (there == here) continue;
    const std::string shown = base::printable(name, limits::kShownName);
    remarks.push_back({shown, "nodes differ: " + shown + " is '" + base::printable(there, limits::kShownReason) +
                                  "' on " + base::printable(hello.host, limits::kShownName) + " and '" + here +
                                  "' on " + own.host});
  }
  if (hello.time_of_day == 0) return remarks;
  const auto difference =
      clock_ahead(hello.time_of_day, std::chrono::nanoseconds(own.time_of_day - own.monotonic) + now);
  const auto amount = std::chrono::abs(difference);
  if (amount < limits::kClockDifference) return remarks;
  const std::string host = base::printable(hello.host, limits::kShownName);
  remarks.push_back({"clock of " + host, "the clock of " + host + " is " + base::human_duration(amount) +
                                             (difference.count() > 0 ? " ahead of" : " behind") + " that of " +
                                             own.host + ": the times of their logs do not fit"});
  return remarks;
}

}  // namespace ddp::launcher

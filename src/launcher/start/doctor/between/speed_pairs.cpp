#include "launcher/start/doctor/between/speed_pairs.h"

#include <algorithm>
#include <map>

namespace ddp::launcher::doctor {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

std::vector<NodePair> first_pairs(std::span<const int> nodes) {
  std::vector<NodePair> pairs;
  for (std::size_t i = 0; i + 1 < nodes.size(); i += 2) pairs.emplace_back(nodes[i], nodes[i + 1]);
  return pairs;
}

std::vector<NodePair> second_pairs(std::span<const int> nodes, std::span<const Speed> first) {
  std::map<int, double> speed_of;
  for (const Speed& speed : first) speed_of[speed.node] = speed_of[speed.other] = slower_of(speed);
  std::vector<int> order(nodes.begin(), nodes.end());
  // The two of a pair are equally fast, so that they stand side by side and not at opposite ends.
  std::ranges::stable_sort(order, {}, [&](int node) { return speed_of[node]; });
  std::vector<NodePair> pairs;
  for (std::size_t i = 0; i < order.size() / 2; ++i) {
    const auto [one, other] = std::minmax(order[i], order[order.size() - 1 - i]);
    pairs.emplace_back(one, other);
  }
  return pairs;
}

std::vector<int> slow_nodes(std::span<const Speed> speeds) {
  constexpr std::size_t kLeastNodes = 4;
  std::map<int, std::vector<double>> of_node;
  std::vector<double> all;
  for (const Speed& speed : speeds) {
    for (const int node : {speed.node, speed.other}) of_node[node].push_back(slower_of(speed));
    all.push_back(slower_of(speed));
  }
  std::vector<int> slow;
  if (of_node.size() < kLeastNodes) return slow;
  const double usual = median(all);
  for (const auto& [node, measured] : of_node) {
    if (measured.size() >= 2 && std::ranges::max(measured) < usual / 2) slow.push_back(node);
  }
  return slow;
}

}  // namespace ddp::launcher::doctor

#include "launcher/see/view/rank_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr double kMarkedShare = 0.25;
constexpr double kCloseShare = 0.1;
constexpr double kCloseRate = 0.1;  // relative

bool has_text(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// Returns whether `filter` is a list such as "3,8-15" that contains `rank`, or std::nullopt if it is another text.
std::optional<bool> is_in_list(std::string_view filter, int rank) {
  bool found = false;
  for (const std::string& part : base::split(filter, ',')) {
    const auto dash = part.find('-');
    const auto first = base::parse_integer(part.substr(0, dash), 0, std::numeric_limits<int>::max());
    const auto last = dash == std::string::npos
                          ? first
                          : base::parse_integer(part.substr(dash + 1), 0, std::numeric_limits<int>::max());
    if (!first || !last) return std::nullopt;
    found = found || (rank >= *first && rank <= *last);
  }
  return found;
}

bool matches(const RankRow& rank, std::string_view filter) {
  if (filter.empty()) return true;
  if (const auto listed = is_in_list(filter, rank.rank)) return *listed;
  return has_text(rank.node, filter) || has_text(name_of(rank.state), filter) || has_text(rank.phase, filter) ||
         has_text(rank.collective_name, filter) || has_text("gpu " + rank.gpu, filter);
}

bool are_close(double a, double b) {
  return std::abs(a - b) <= kCloseShare;
}

template <typename Value>
bool are_both_set(const std::optional<Value>& a, const std::optional<Value>& b) {
  return a.has_value() == b.has_value();
}

// The node, the state and the phase are the same.
bool are_alike(const RankRow& a, const RankRow& b) {
  const auto steps = std::minmax(a.steps, b.steps);
  const double rate = std::max(a.steps_per_second, b.steps_per_second);
  return steps.second - steps.first <= 1 && are_close(a.computing, b.computing) && are_close(a.waiting, b.waiting) &&
         are_close(a.collective, b.collective) && are_close(a.in_phase, b.in_phase) &&
         are_close(a.waited_for, b.waited_for) &&
         std::abs(a.steps_per_second - b.steps_per_second) <= kCloseRate * rate &&
         are_close(a.gpu_use.value_or(0), b.gpu_use.value_or(0)) && are_both_set(a.gpu_use, b.gpu_use);
}

template <typename Value>
std::optional<Value> greatest_set(const std::optional<Value>& a, const std::optional<Value>& b) {
  return !a ? b : !b ? a : std::max(*a, *b);
}

template <typename Value>
std::optional<Value> least_set(const std::optional<Value>& a, const std::optional<Value>& b) {
  return !a ? b : !b ? a : std::min(*a, *b);
}

// Adds a rank to the group of `count` others.
void add_to_group(RankGroup& group, const RankGroup& single) {
  const auto count = static_cast<double>(group.ranks.size());
  group.ranks.push_back(single.ranks.front());
  RankRow& row = group.figures;
  const RankRow& other = single.figures;
  const auto mean = [count](double& value, double more) { value += (more - value) / (count + 1); };
  for (double RankRow::*figure : {&RankRow::steps_per_second, &RankRow::computing, &RankRow::collective,
                                  &RankRow::waiting, &RankRow::in_phase, &RankRow::waited_for}) {
    mean(row.*figure, other.*figure);
  }
  for (std::optional<double> RankRow::*figure : {&RankRow::cpus, &RankRow::gpu_use}) {
    if (row.*figure && other.*figure) mean(*(row.*figure), *(other.*figure));
  }
  row.pid = 0;
  row.gpu.clear();
  row.steps = std::min(row.steps, other.steps);
  row.rss_bytes = greatest_set(row.rss_bytes, other.rss_bytes);
  row.gpu_memory_bytes = greatest_set(row.gpu_memory_bytes, other.gpu_memory_bytes);
  row.collective_age = greatest_set(row.collective_age, other.collective_age);
  row.output_age = least_set(row.output_age, other.output_age);
  if (row.collective_name != other.collective_name) row.collective_name.clear();
}

// Returns a number that is lower for rows that come first.
double place_of(const RankGroup& group, RankOrder order, bool is_stalled) {
  const RankRow& row = group.figures;
  const double worst_first = group.is_culprit ? -2 : -row.waited_for;
  // In the order of RankOrder.
  const std::array places = {is_stalled ? worst_first : 0.0,
                             0.0,
                             -static_cast<double>(row.state),
                             static_cast<double>(row.steps),
                             row.steps_per_second,
                             -row.waited_for,
                             -row.waiting,
                             -row.cpus.value_or(-1),
                             -static_cast<double>(row.rss_bytes.value_or(0)),
                             -row.gpu_use.value_or(-1),
                             -row.output_age.value_or(std::numeric_limits<double>::max())};
  return places.at(static_cast<std::size_t>(order));
}

// A number that is not one would break the order.
double comparable(double place) {
  return std::isnan(place) ? 0 : place;
}

}  // namespace

bool has_stall(const JobSnapshot& snapshot) {
  return !snapshot.stall.empty() || !snapshot.culprits.empty();
}

bool is_waited_for(const RankRow& rank) {
  return rank.waited_for >= kMarkedShare;
}

void sort_ranks(std::vector<RankGroup>& groups, RankOrder order, bool is_stalled) {
  std::ranges::stable_sort(groups, [&](const RankGroup& a, const RankGroup& b) {
    return std::tuple(comparable(place_of(a, order, is_stalled)), a.ranks.front()) <
           std::tuple(comparable(place_of(b, order, is_stalled)), b.ranks.front());
  });
}

std::vector<RankGroup> single_ranks(const JobSnapshot& snapshot, std::string_view filter, RankOrder order) {
  std::vector<RankGroup> singles;
  for (const RankRow& rank : snapshot.ranks) {
    if (!matches(rank, filter)) continue;
    singles.push_back({{rank.rank}, rank, std::ranges::find(snapshot.culprits, rank.rank) != snapshot.culprits.end()});
  }
  sort_ranks(singles, order, has_stall(snapshot));
  return singles;
}

std::vector<RankGroup> joined(const std::vector<RankGroup>& singles) {
  using Key = std::tuple<std::string_view, RankState, std::string_view, bool>;
  std::vector<RankGroup> groups;
  std::vector<const RankRow*> first;  // the figures of the first rank of each group
  std::map<Key, std::vector<std::size_t>> alike;
  for (const RankGroup& single : singles) {
    const RankRow& row = single.figures;
    std::vector<std::size_t>& candidates = alike[{row.node, row.state, row.phase, single.is_culprit}];
    const auto found = std::ranges::find_if(candidates, [&](std::size_t i) { return are_alike(*first[i], row); });
    if (found != candidates.end()) {
      add_to_group(groups[*found], single);
      continue;
    }
    candidates.push_back(groups.size());
    groups.push_back(single);
    first.push_back(&row);
  }
  for (RankGroup& group : groups) std::ranges::sort(group.ranks);
  return groups;
}

std::vector<RankGroup> worst_of(std::vector<RankGroup> singles, std::size_t most) {
  const auto badness = [](const RankGroup& group) {
    const RankRow& row = group.figures;
    return std::tuple(!group.is_culprit, row.state != RankState::stopped, comparable(-row.waited_for), row.steps,
                      group.ranks.front());
  };
  const std::size_t count = std::min(most, singles.size());
  std::ranges::partial_sort(singles, singles.begin() + static_cast<std::ptrdiff_t>(count), {}, badness);
  singles.resize(count);
  return singles;
}

}  // namespace ddp::launcher

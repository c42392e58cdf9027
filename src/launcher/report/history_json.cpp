#include "launcher/report/history_json.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace ddp::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Nanoseconds are exact enough, and a number that is not finite has no JSON.
double rounded(double seconds) {
  return std::isfinite(seconds) ? std::round(seconds * 1e9) / 1e9 : 0;
}

OrderedJson rank_json(const RankHistory& rank) {
  OrderedJson json = {{"rank", rank.rank}, {"node", rank.node}, {"strip", rank.strip}};
  if (!rank.waited_for.empty()) json["waited_for"] = rank.waited_for;
  json["seconds"] = OrderedJson::array();
  for (const double seconds : rank.seconds) json["seconds"].push_back(std::round(seconds * 1e3) / 1e3);
  json["waited_for_seconds"] = std::round(rank.waited_for_seconds * 1e3) / 1e3;
  json["steps"] = rank.steps;
  if (rank.step_median) json["step_median_seconds"] = rounded(*rank.step_median);
  if (rank.step_p99) json["step_p99_seconds"] = rounded(*rank.step_p99);
  if (rank.dropped > 0) json["dropped"] = rank.dropped;
  return json;
}

OrderedJson collective_json(const CollectiveHistory& row) {
  OrderedJson json = {{"operation", row.operation},
                      {"name", row.name},
                      {"group", row.group},
                      {"size", row.size},
                      {"count", row.count},
                      {"matched", row.matched},
                      {"bytes", row.bytes},
                      {"median_seconds", rounded(row.median)},
                      {"p99_seconds", rounded(row.p99)},
                      {"longest_seconds", rounded(row.longest)}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) json[name] = rounded(*value);
  };
  add("gpu_median_seconds", row.gpu_median);
  add("transfer_median_seconds", row.transfer_median);
  if (row.algorithm_rate) json["algorithm_bytes_per_second"] = std::round(*row.algorithm_rate);
  if (row.bus_rate) json["bus_bytes_per_second"] = std::round(*row.bus_rate);
  if (row.last_rank) {
    json["last_rank"] = *row.last_rank;
    json["last_count"] = row.last_count;
  }
  return json;
}

}  // namespace

std::string history_line(const LaunchPlan& plan, const std::string& node, const AttemptHistory& history, WallTime now) {
  OrderedJson json = {{"time", iso_time(now)},
                      {"event", "history"},
                      {"run_id", plan.run_id},
                      {"node", node},
                      {"attempt", history.attempt},
                      {"recording", name_of(plan.recording)},
                      {"seconds", rounded(history.seconds)},
                      {"columns", history.columns},
                      {"column_seconds", history.column_seconds},
                      {"waited_for_columns", history.waited_for_columns},
                      {"waited_for_column_seconds", history.waited_for_column_seconds},
                      {"ranks", OrderedJson::array()},
                      {"collectives", OrderedJson::array()},
                      {"other_collectives", history.other_collectives},
                      {"dropped", history.dropped},
                      {"clock_error_seconds", rounded(history.clock_error)}};
  if (history.left_out > 0) json["ranks_left_out"] = history.left_out;
  for (const RankHistory& rank : history.ranks) json["ranks"].push_back(rank_json(rank));
  for (const CollectiveHistory& row : history.collectives) json["collectives"].push_back(collective_json(row));
  return json.dump(-1, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace);
}

}  // namespace ddp::launcher

#include "launcher/report/history_reader.h"

#include <nlohmann/json.hpp>

#include "launcher/report/event_values.h"
#include "launcher/view/history_limits.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

RankHistory read_rank(const Json& json) {
  RankHistory rank;
  rank.rank = integer_at(json, "rank");
  rank.node = text_at(json, "node");
  rank.strip = text_at(json, "strip");
  rank.waited_for = text_at(json, "waited_for");
  const auto& seconds = list_at(json, "seconds");
  for (std::size_t i = 0; i < std::min(seconds.size(), rank.seconds.size()); ++i) {
    if (seconds[i].is_number()) rank.seconds.at(i) = std::max(seconds[i].get<double>(), 0.0);
  }
  rank.waited_for_seconds = number_at(json, "waited_for_seconds");
  rank.steps = count_at(json, "steps");
  rank.step_median = optional_number_at(json, "step_median_seconds");
  rank.step_p99 = optional_number_at(json, "step_p99_seconds");
  rank.dropped = count_at(json, "dropped");
  return rank;
}

CollectiveHistory read_collective(const Json& json) {
  CollectiveHistory row;
  row.operation = text_at(json, "operation");
  row.name = text_at(json, "name");
  row.group = text_at(json, "group");
  row.size = integer_at(json, "size");
  row.count = count_at(json, "count");
  row.matched = count_at(json, "matched");
  row.bytes = count_at(json, "bytes");
  row.median = number_at(json, "median_seconds");
  row.p99 = number_at(json, "p99_seconds");
  row.longest = number_at(json, "longest_seconds");
  row.gpu_median = optional_number_at(json, "gpu_median_seconds");
  row.transfer_median = optional_number_at(json, "transfer_median_seconds");
  row.algorithm_rate = optional_number_at(json, "algorithm_bytes_per_second");
  row.bus_rate = optional_number_at(json, "bus_bytes_per_second");
  row.last_rank = optional_integer(value_at(json, "last_rank"));
  row.last_count = count_at(json, "last_count");
  return row;
}

}  // namespace

AttemptHistory read_history(const Json& event) {
  AttemptHistory history;
  history.attempt = integer_at(event, "attempt");
  history.seconds = number_at(event, "seconds");
  history.columns = std::clamp(integer_at(event, "columns"), 0, static_cast<int>(limits::kHistoryColumns));
  history.column_seconds = number_at(event, "column_seconds");
  history.waited_for_columns =
      std::clamp(integer_at(event, "waited_for_columns"), 0, static_cast<int>(limits::kHistoryWaitColumns));
  history.waited_for_column_seconds = number_at(event, "waited_for_column_seconds");
  history.left_out = std::max(integer_at(event, "ranks_left_out"), 0);
  for (const Json& rank : list_at(event, "ranks")) history.ranks.push_back(read_rank(rank));
  for (const Json& row : list_at(event, "collectives")) history.collectives.push_back(read_collective(row));
  history.other_collectives = count_at(event, "other_collectives");
  history.dropped = count_at(event, "dropped");
  history.clock_error = number_at(event, "clock_error_seconds");
  return history;
}

}  // namespace ddp::launcher

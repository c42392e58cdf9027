#include "launcher/see/report/history_json.h"

#include <algorithm>

#include "launcher/see/view/history_limits.h"
#include "launcher/see/view/json_fields.h"

namespace ddp::launcher {
namespace {

// Numbers of decimal digits: there is a time for each rank and state, and few of the others.
constexpr int kRankDigits = 3;
constexpr int kDigits = 9;

template <typename Fields, typename Row>
void list_rank(Fields& fields, Row& rank) {
  fields.add("rank", rank.rank);
  fields.add("node", rank.node);
  fields.add("strip", rank.strip);
  fields.add_if_any("waited_for", rank.waited_for);
  fields.add_numbers("seconds", rank.seconds, kRankDigits);
  fields.add("waited_for_seconds", rank.waited_for_seconds, kRankDigits);
  fields.add("steps", rank.steps);
  fields.add_if_any("step_median_seconds", rank.step_median, kDigits);
  fields.add_if_any("step_p99_seconds", rank.step_p99, kDigits);
  fields.add_if_any("dropped", rank.dropped);
}

template <typename Fields, typename Row>
void list_collective(Fields& fields, Row& row) {
  fields.add("operation", row.operation);
  fields.add("name", row.name);
  fields.add("group", row.group);
  fields.add("size", row.size);
  fields.add("count", row.count);
  fields.add("matched", row.matched);
  fields.add("bytes", row.bytes);
  fields.add("median_seconds", row.median, kDigits);
  fields.add("p99_seconds", row.p99, kDigits);
  fields.add("longest_seconds", row.longest, kDigits);
  fields.add_if_any("gpu_median_seconds", row.gpu_median, kDigits);
  fields.add_if_any("transfer_median_seconds", row.transfer_median, kDigits);
  fields.add_if_any("algorithm_bytes_per_second", row.algorithm_rate, 0);
  fields.add_if_any("bus_bytes_per_second", row.bus_rate, 0);
  fields.add_if_any("last_rank", row.last_rank);
  fields.add_if_any("last_count", row.last_count);
}

template <typename Fields, typename History>
void list_attempt(Fields& fields, History& history) {
  fields.add("attempt", history.attempt);
  fields.add("seconds", history.seconds, kDigits);
  fields.add("columns", history.columns);
  fields.add("column_seconds", history.column_seconds, kDigits);
  fields.add("waited_for_columns", history.waited_for_columns);
  fields.add("waited_for_column_seconds", history.waited_for_column_seconds, kDigits);
  fields.add_list("ranks", history.ranks, [](auto& members, auto& rank) { list_rank(members, rank); });
  fields.add_if_any("curve_column_seconds", history.curve_seconds, kDigits);
  fields.add_list("curves", history.curves, [](auto& members, auto& curve) { list_curve(members, curve); });
  fields.add_list("collectives", history.collectives, [](auto& members, auto& row) { list_collective(members, row); });
  fields.add("other_collectives", history.other_collectives);
  fields.add("dropped", history.dropped);
  fields.add("clock_error_seconds", history.clock_error, kDigits);
  fields.add_if_any("ranks_left_out", history.left_out);
}

}  // namespace

std::string history_line(const LaunchPlan& plan, const std::string& node, const AttemptHistory& history, WallTime now) {
  std::string text;
  FieldWriter::object(text, history, [&](auto& fields, auto& attempt) {
    fields.add("time", iso_time(now));
    fields.add("event", "history");
    fields.add("run_id", plan.run_id);
    fields.add("node", node);
    fields.add("recording", name_of(plan.recording));
    list_attempt(fields, attempt);
  });
  return text;
}

AttemptHistory as_logged(AttemptHistory history) {
  FieldRounder::object(history, [](auto& fields, auto& attempt) { list_attempt(fields, attempt); });
  return history;
}

AttemptHistory read_history(const nlohmann::json& event) {
  AttemptHistory history;
  FieldReader::object(event, history, [](auto& fields, auto& attempt) { list_attempt(fields, attempt); });
  history.columns = std::clamp(history.columns, 0, static_cast<int>(limits::kHistoryColumns));
  history.waited_for_columns = std::clamp(history.waited_for_columns, 0, static_cast<int>(limits::kHistoryWaitColumns));
  constexpr std::size_t kMostCurves = 32;
  if (history.curves.size() > kMostCurves) history.curves.resize(kMostCurves);
  for (Curve& curve : history.curves) {
    for (Curve::Points* points : {&curve.mean, &curve.least, &curve.most}) {
      if (points->size() > limits::kHistoryWaitColumns) points->resize(limits::kHistoryWaitColumns);
    }
  }
  history.left_out = std::max(history.left_out, 0);
  return history;
}

}  // namespace ddp::launcher

#include "launcher/see/view/collective_table.h"

#include <algorithm>

#include "launcher/see/view/history_limits.h"
#include "wire/call_names.h"

namespace ddp::launcher {
double bus_factor(std::string_view operation, int ranks) {
  const double n = std::max(ranks, 1);
  if (operation == "all_reduce") return 2 * (n - 1) / n;
  const bool is_whole = operation == "broadcast" || operation == "reduce" || operation == "send" || operation == "recv";
  return is_whole ? 1 : (n - 1) / n;
}

double whole_bytes(std::string_view operation, int ranks, double bytes) {
  const bool is_part =
      operation == "all_gather" || operation == "gather" || operation == "scatter" || operation == "reduce_scatter";
  return is_part ? bytes * std::max(ranks, 1) : bytes;
}

CollectiveTable::Row* CollectiveTable::row_of(const RankRecords& records, const Record& record) {
  static const RecordedGroup kNoGroup;
  const RecordedGroup& group = record.group < records.groups.size() ? records.groups[record.group] : kNoGroup;
  const bool is_transfer = record.kind == wire::RecordKind::transfer;
  Key key{group.identity, group.name, record.operation,
          record.name < records.names.size() ? records.names[record.name] : "", is_transfer};
  const auto found = rows_.find(key);
  if (found != rows_.end()) return &found->second;
  if (rows_.size() == limits::kHistoryCollectives) return nullptr;
  Row& row = rows_[std::move(key)];
  row.size = is_transfer ? 2 : std::max(group.size, 1);
  return &row;
}

void CollectiveTable::add(const RankRecords& records) {
  for (const Record& record : records.records) {
    using Kind = wire::RecordKind;
    if (record.kind != Kind::collective && record.kind != Kind::transfer && record.kind != Kind::gpu) continue;
    if (record.end < record.begin) continue;
    Row* row = row_of(records, record);
    if (row == nullptr) {
      ++left_out_;
      continue;
    }
    const std::uint64_t duration = record.end - record.begin;
    if (record.kind == Kind::gpu) {
      row->gpu.add(duration);
      continue;
    }
    ++row->calls;
    row->bytes += record.bytes;
    row->time += duration;
    // PyTorch does not say when a collective of Gloo ended. Its end is then its begin.
    if (duration > 0) row->durations.add(duration);
    if (record.kind == Kind::collective && record.group < records.groups.size()) {
      match(*row, records.groups[record.group].identity, records.rank, record);
    }
  }
}

void CollectiveTable::match(Row& row, std::uint64_t group, int rank, const Record& record) {
  const CollectiveId key{group, record.number};
  const auto [entry, is_new] = calls_.try_emplace(key);
  if (is_new) {
    order_.push_back(key);
    if (order_.size() > limits::kHistoryOpenCalls) {
      calls_.erase(order_.front());
      order_.pop_front();
    }
  }
  Call& call = entry->second;
  ++call.ranks;
  if (record.begin >= call.last_begin) {
    call.last_begin = record.begin;
    call.last_rank = rank;
  }
  call.last_end = std::max(call.last_end, record.end);
  if (call.ranks < row.size) return;
  ++row.matched;
  ++row.last[call.last_rank];
  if (call.last_end > call.last_begin) row.transfers.add(call.last_end - call.last_begin);
  calls_.erase(entry);
}

CollectiveHistory CollectiveTable::history_of(const Key& key, const Row& row) {
  const auto& [identity, group, operation, name, is_transfer] = key;
  CollectiveHistory history;
  history.operation = std::string(wire::name_of(wire::kOperationNames, operation));
  history.name = name;
  history.group = group;
  history.size = row.size;
  const auto ranks_per_call = static_cast<std::uint64_t>(is_transfer ? 1 : row.size);
  history.count = (row.calls + ranks_per_call - 1) / ranks_per_call;
  history.bytes = row.calls == 0 ? 0 : row.bytes / row.calls;
  history.median = history_seconds(row.durations.quantile(0.5));
  history.p99 = history_seconds(row.durations.quantile(0.99));
  history.longest = history_seconds(row.durations.longest());
  history.matched = row.matched;
  if (row.gpu.count() > 0) history.gpu_median = history_seconds(row.gpu.quantile(0.5));
  if (row.transfers.count() > 0) history.transfer_median = history_seconds(row.transfers.quantile(0.5));
  // The GPU's own time is the more exact one, because it does not contain the program's delays.
  const double time = history.gpu_median.value_or(history.transfer_median.value_or(is_transfer ? history.median : 0));
  if (time > 0 && history.bytes > 0) {
    history.algorithm_rate = whole_bytes(history.operation, row.size, static_cast<double>(history.bytes)) / time;
    history.bus_rate = *history.algorithm_rate * bus_factor(history.operation, row.size);
  }
  for (const auto& [rank, count] : row.last) {
    const bool is_more = count > history.last_count || (count == history.last_count && rank < *history.last_rank);
    if (!is_more) continue;
    history.last_rank = rank;
    history.last_count = count;
  }
  return history;
}

std::vector<CollectiveHistory> CollectiveTable::rows() const {
  std::vector<std::pair<std::uint64_t, CollectiveHistory>> sorted;
  for (const auto& [key, row] : rows_) {
    if (row.calls > 0) sorted.emplace_back(row.time, history_of(key, row));
  }
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<CollectiveHistory> rows;
  rows.reserve(sorted.size());
  for (auto& [time, history] : sorted) rows.push_back(std::move(history));
  return rows;
}

}  // namespace ddp::launcher

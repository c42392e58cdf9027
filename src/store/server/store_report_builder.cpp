#include "store/server/store_report_builder.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "store/limits.h"

namespace ddp::store {
namespace {

std::int64_t milliseconds(TimePoint::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

std::vector<wire::StoreReport::Key> keys_of(const StoreTable& table) {
  std::vector<wire::StoreReport::Key> keys;
  for (const auto& [name, value] : table.values()) keys.push_back({name, static_cast<std::int64_t>(value.size()), -1});
  for (const auto& [name, values] : table.queues()) {
    std::int64_t bytes = 0;
    for (const std::string& value : values) bytes += static_cast<std::int64_t>(value.size());
    keys.push_back({name, bytes, static_cast<std::int64_t>(values.size())});
  }
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(std::min(keys.size(), limits::kStoreReportKeys));
  std::ranges::partial_sort(keys, last, {}, &wire::StoreReport::Key::name);
  keys.erase(last, keys.end());
  return keys;
}

wire::StoreReport::Client client_of(const StoreTable& table, const ServedClient& session, TimePoint now) {
  wire::StoreReport::Client client;
  client.peer = session.peer();
  client.connected_ms = milliseconds(now - session.connected_since());
  client.held_bytes = static_cast<std::int64_t>(session.held_bytes());
  if (const StoreRank* rank = table.ranks().find(session.id())) {
    client.rank = rank->rank;
    client.name = rank->name;
  }
  if (const auto wait = table.wait_of(session.id())) {
    client.waiting_ms = milliseconds(now - wait->since);
    client.awaited_keys = static_cast<std::int64_t>(wait->key_count);
    client.awaited = wait->keys;
  }
  return client;
}

}  // namespace

wire::StoreReport build_report(const StoreTable& table, std::span<const ServedClient* const> sessions, TimePoint now) {
  wire::StoreReport report;
  report.key_count = static_cast<std::int64_t>(table.values().size() + table.queues().size());
  report.table_bytes = static_cast<std::int64_t>(table.bytes());
  report.client_count = static_cast<std::int64_t>(sessions.size());
  report.keys = keys_of(table);
  for (const ServedClient* session : sessions) report.clients.push_back(client_of(table, *session, now));
  std::ranges::sort(report.clients, [](const auto& a, const auto& b) {
    return std::tuple(-a.waiting_ms, a.rank, a.peer) < std::tuple(-b.waiting_ms, b.rank, b.peer);
  });
  if (report.clients.size() > limits::kStoreReportClients) report.clients.resize(limits::kStoreReportClients);
  return report;
}

std::vector<LongWait> build_long_waits(const StoreTable& table, std::span<const ServedClient* const> clients,
                                       TimePoint before) {
  std::map<std::string, LongWait> by_key;
  for (const ServedClient* client : clients) {
    const auto wait = table.wait_of(client->id());
    if (!wait || wait->since > before) continue;
    LongWait& entry =
        by_key.try_emplace(wait->keys.front(), LongWait{wait->keys.front(), 0, wait->since, {}}).first->second;
    ++entry.clients;
    entry.since = std::min(entry.since, wait->since);
  }
  std::vector<LongWait> waits;
  for (auto& [key, entry] : by_key) waits.push_back(std::move(entry));
  std::ranges::stable_sort(waits, {}, &LongWait::since);
  if (waits.size() > limits::kStoreNamedKeys) waits.resize(limits::kStoreNamedKeys);
  for (LongWait& entry : waits) entry.who = table.who_waits({entry.key});
  return waits;
}

std::string describe_given_up(const StoreTable& table, const ServedClient& session, const StoreWait& wait,
                              const std::string& how, TimePoint now) {
  const StoreRank* rank = table.ranks().find(session.id());
  std::string text =
      rank == nullptr ? "the client " + session.peer() : "rank " + std::to_string(rank->rank) + " (" + rank->name + ")";
  text += " " + how + " for key '" + wait.keys.front() + "'";
  if (wait.key_count > 1) text += " and " + base::counted(static_cast<std::int64_t>(wait.key_count) - 1, "other");
  text += " after " + base::human_duration(now - wait.since);
  const WhoWaits who = table.who_waits(wait.keys);
  return text + base::rank_clause(who.waiting, "waits or waited for it", "wait or waited for it") +
         base::rank_clause(who.elsewhere, "is connected but does not", "are connected but do not") +
         base::rank_clause(who.absent, "is not connected", "are not connected");
}

}  // namespace ddp::store

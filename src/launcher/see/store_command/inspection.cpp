#include "launcher/see/store_command/inspection.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <vector>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/see/view/styled_line.h"
#include "store/limits.h"

namespace ddp::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;
using wire::StoreReport;
using Client = StoreReport::Client;
using Clients = std::vector<const Client*>;
using Row = std::vector<std::string>;

std::string duration(std::int64_t milliseconds) {
  return base::human_duration(std::chrono::milliseconds(milliseconds));
}

std::string bytes(std::int64_t count) {
  return base::human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)));
}

std::string quoted_key(std::string_view key) {
  std::string text = printable(key);
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return "\"" + text + "\"";
}

// Aligns the columns, with two spaces before each of them.
std::string lines_of(const std::vector<Row>& rows) {
  std::string text;
  for (const std::string& line : aligned_rows(rows)) text += "  " + line + "\n";
  return text;
}

// Returns a line about the items that were not printed. Of `total` items, the report has `sent`, and `shown` were
// printed.
std::string rest(std::size_t total, std::size_t sent, std::size_t shown) {
  if (total <= shown) return "";
  const std::string all =
      sent == total ? "--json prints all" : "the server sent " + std::to_string(sent) + ", --json prints these";
  return "  ... and " + std::to_string(total - shown) + " more (" + all + ")\n";
}

Row client_row(const Client& client, std::int64_t since_ms) {
  const bool holds_much = client.held_bytes > static_cast<std::int64_t>(limits::kStorePauseBytes);
  return {client.rank < 0 ? "no rank" : "rank " + std::to_string(client.rank), duration(since_ms),
          printable(client.peer), printable(client.name),
          holds_much ? "holds " + bytes(client.held_bytes) + " of unread replies or incomplete requests" : ""};
}

std::string client_lines(const Clients& clients, std::int64_t Client::*since) {
  const std::size_t shown = std::min(clients.size(), limits::kInspectedClients);
  std::vector<Row> rows;
  for (const Client* client : std::span(clients).first(shown)) rows.push_back(client_row(*client, client->*since));
  return lines_of(rows) + rest(clients.size(), clients.size(), shown);
}

std::string awaited(const Client& client) {
  const auto named = static_cast<std::int64_t>(std::min(client.awaited.size(), limits::kInspectedAwaited));
  std::vector<std::string> keys;
  for (const std::string& key : std::span(client.awaited).first(static_cast<std::size_t>(named))) {
    keys.push_back(quoted_key(key));
  }
  const std::int64_t others = client.awaited_keys - named;
  return base::join(keys, ", ") + (others > 0 ? " and " + std::to_string(others) + " more" : "");
}

std::string ranks_of(const Clients& clients) {
  std::set<int> ranks;
  for (const Client* client : clients) ranks.insert(static_cast<int>(client->rank));
  const std::vector<int> list(ranks.begin(), ranks.end());
  return base::ranks_text(list);
}

// Groups the clients by what they do.
struct Sections {
  std::vector<Clients> waiting;  // clients of one list wait for the same keys; the longest wait comes first
  Clients idle;                  // clients of ranks that have no waiting connection
  Clients others;                // clients without a rank, or further connections of a rank that waits
};

Sections sections_of(const Inspection& inspection) {
  Sections sections;
  std::set<std::int64_t> waiting_ranks;
  for (const Client& client : inspection.report.clients) {
    if (client.waiting_ms < 0) continue;
    if (client.rank >= 0) waiting_ranks.insert(client.rank);
    const auto same = std::ranges::find_if(sections.waiting, [&](const Clients& group) {
      return group[0]->awaited == client.awaited && group[0]->awaited_keys == client.awaited_keys;
    });
    if (same == sections.waiting.end()) {
      sections.waiting.push_back({&client});
    } else {
      same->push_back(&client);
    }
  }
  for (const Client& client : inspection.report.clients) {
    if (client.waiting_ms >= 0 || client.peer == inspection.inspector) continue;
    const bool idle = client.rank >= 0 && !waiting_ranks.contains(client.rank);
    (idle ? sections.idle : sections.others).push_back(&client);
  }
  return sections;
}

std::string waiting_text(const std::vector<Clients>& groups) {
  if (groups.empty()) return "\nNo client waits.\n";
  std::string text;
  const std::size_t shown = std::min(groups.size(), limits::kInspectedWaits);
  for (const Clients& group : std::span(groups).first(shown)) {
    text += "\n" + base::counted(std::ssize(group), "client", "waits", "wait") + " for " + awaited(*group[0]) + ":\n" +
            client_lines(group, &Client::waiting_ms);
  }
  if (groups.size() == shown) return text;
  const auto more = static_cast<std::int64_t>(groups.size() - shown);
  return text + "\nClients wait for " + base::counted(more, "other key") + " as well (--json prints all)\n";
}

std::string keys_text(const StoreReport& report) {
  if (report.keys.empty()) return "\nThe store has no keys.\n";
  std::vector<Row> rows;
  const std::size_t shown = std::min(report.keys.size(), limits::kInspectedKeys);
  for (const auto& key : std::span(report.keys).first(shown)) {
    rows.push_back(
        {bytes(key.bytes), key.queued < 0 ? "" : "queue of " + std::to_string(key.queued), quoted_key(key.name)});
  }
  const bool queues = std::ranges::any_of(rows, [](const Row& row) { return !row[1].empty(); });
  if (!queues) {
    for (Row& row : rows) row.erase(row.begin() + 1);
  }
  return "\nKeys:\n" + lines_of(rows) +
         rest(static_cast<std::size_t>(std::max<std::int64_t>(report.key_count, 0)), report.keys.size(), shown);
}

OrderedJson or_null(std::int64_t number) {
  return number < 0 ? OrderedJson(nullptr) : OrderedJson(number);
}

OrderedJson key_of(const StoreReport::Key& key) {
  return {{"name", key.name}, {"bytes", key.bytes}, {"queued", or_null(key.queued)}};
}

OrderedJson client_of(const Client& client) {
  return {{"peer", client.peer},
          {"rank", or_null(client.rank)},
          {"name", client.rank < 0 ? OrderedJson(nullptr) : OrderedJson(client.name)},
          {"connected_ms", client.connected_ms},
          {"waiting_ms", or_null(client.waiting_ms)},
          {"awaited_keys", client.awaited_keys},
          {"awaited", client.awaited},
          {"held_bytes", client.held_bytes}};
}

}  // namespace

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, limits::kInspectedBytes)) {
    const bool is_plain = c >= ' ' && c <= '~' && c != '\\';
    text += is_plain ? std::string(1, c) : base::escaped(c);
  }
  if (bytes.size() <= limits::kInspectedBytes) return text;
  return text + "... (" + std::to_string(bytes.size()) + " bytes)";
}

std::string inspection_text(const Inspection& inspection) {
  const StoreReport& report = inspection.report;
  const Sections sections = sections_of(inspection);
  std::string text = "The store at " + inspection.where + " has " + base::counted(report.key_count, "key") + " in " +
                     bytes(report.table_bytes) + " of memory, and " + base::counted(report.client_count - 1, "client") +
                     ".\n";
  text += waiting_text(sections.waiting);
  if (!sections.idle.empty()) {
    text += "\nConnected and not waiting, " + ranks_of(sections.idle) + ":\n" +
            client_lines(sections.idle, &Client::connected_ms);
  }
  if (!inspection.absent_ranks.empty()) {
    const bool several = inspection.absent_ranks.find_first_of(",-") != std::string::npos;
    text +=
        std::string("\nNot connected: ") + (several ? "ranks " : "rank ") + printable(inspection.absent_ranks) + "\n";
  }
  if (!sections.others.empty()) {
    text += "\n" + base::counted(std::ssize(sections.others), "other client") + ", connected for:\n" +
            client_lines(sections.others, &Client::connected_ms);
  }
  if (const auto sent = std::ssize(report.clients); report.client_count > sent) {
    text += "\nThe server sent " + std::to_string(sent) + " of " + std::to_string(report.client_count) + " clients.\n";
  }
  return text + keys_text(report);
}

std::string inspection_json(const Inspection& inspection) {
  const StoreReport& report = inspection.report;
  OrderedJson keys = OrderedJson::array();
  for (const StoreReport::Key& key : report.keys) keys.push_back(key_of(key));
  OrderedJson clients = OrderedJson::array();
  for (const Client& client : report.clients) {
    if (client.peer != inspection.inspector) clients.push_back(client_of(client));
  }
  const OrderedJson result = {{"where", inspection.where},
                              {"key_count", report.key_count},
                              {"table_bytes", report.table_bytes},
                              {"client_count", report.client_count - 1},
                              {"absent_ranks", inspection.absent_ranks},
                              {"clients", clients},
                              {"keys", keys}};
  // Keys may be any bytes. Bytes that are not UTF-8 are shown as replacement characters.
  return result.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher

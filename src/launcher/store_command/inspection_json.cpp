#include <nlohmann/json.hpp>

#include <algorithm>

#include "launcher/store_command/inspection.h"

namespace ddp::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;
using wire::StoreReport;

OrderedJson or_null(std::int64_t number) {
  return number < 0 ? OrderedJson(nullptr) : OrderedJson(number);
}

OrderedJson key_of(const StoreReport::Key& key) {
  return {{"name", key.name}, {"bytes", key.bytes}, {"queued", or_null(key.queued)}};
}

OrderedJson client_of(const StoreReport::Client& client) {
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

std::string inspection_json(const Inspection& inspection) {
  const StoreReport& report = inspection.report;
  OrderedJson keys = OrderedJson::array();
  for (const StoreReport::Key& key : report.keys) keys.push_back(key_of(key));
  OrderedJson clients = OrderedJson::array();
  for (const StoreReport::Client& client : report.clients) {
    if (client.peer != inspection.inspector) clients.push_back(client_of(client));
  }
  const OrderedJson result = {{"where", inspection.where},
                              {"key_count", report.key_count},
                              {"table_bytes", report.table_bytes},
                              {"client_count", report.client_count - 1},
                              {"absent_ranks", inspection.absent_ranks},
                              {"clients", clients},
                              {"keys", keys}};
  // Keys may be any bytes; those that are no UTF-8 are shown with replacement characters.
  return result.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher

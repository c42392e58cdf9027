#include "launcher/see/store_command/inspection.h"

#include <nlohmann/json.hpp>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/golden.h"

using namespace ddp::launcher;
using Client = ddp::wire::StoreReport::Client;
using Json = nlohmann::json;

namespace limits = ddp::limits;

namespace {

Client client(int rank, std::int64_t waiting_ms, std::vector<std::string> awaited = {}) {
  Client result;
  const int number = rank < 0 ? 99 : rank;
  result.peer = "127.0.0.1:" + std::to_string(40'000 + number);
  result.rank = rank;
  if (rank >= 0) result.name = "node" + std::to_string(rank / 2) + ":" + std::to_string(4711 + rank);
  result.connected_ms = 3'600'000;
  result.waiting_ms = waiting_ms;
  result.awaited_keys = static_cast<std::int64_t>(awaited.size());
  result.awaited = std::move(awaited);
  return result;
}

Inspection stuck_job() {
  Inspection inspection{"127.0.0.1:29500", "127.0.0.1:50000", {}, "5-7"};
  auto& clients = inspection.report.clients;
  clients = {client(1, 123'000, {"/ddp/0/1/host/0"}), client(3, 118'000, {"/ddp/0/1/host/0"}),
             client(2, 12'000, {"/a", "/b", "/c", "/d", "/e"}), client(-1, 500, {"/ddp/0/1/host/0"})};
  clients[2].awaited_keys = 131'072;
  clients.push_back(client(0, -1));
  clients.push_back(client(4, -1));
  clients.push_back(client(3, -1));  // this is the client's second connection
  clients.back().peer = "127.0.0.1:40103";
  clients.push_back(client(-1, -1));
  clients.back().peer = "10.0.0.9:1234";
  clients.back().held_bytes = 3 << 20;
  clients.push_back(client(-1, -1));
  clients.back().peer = inspection.inspector;
  inspection.report.client_count = std::ssize(clients);
  inspection.report.keys = {
      {"/ddp/0/1/host/1", 36, -1}, {"/queue", 2048, 3}, {std::string("/\x1b[2J\"\\\xff\n\0", 9), 2, -1}};
  inspection.report.key_count = 3;
  inspection.report.table_bytes = 2564;
  return inspection;
}

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the text about a blocked job equals the golden file") {
  check_golden("store_inspection.txt", inspection_text(stuck_job()));
}

TEST_CASE("an empty store is described in a few lines") {
  Inspection inspection{"[::1]:29500", "[::1]:50000", {}, ""};
  inspection.report.client_count = 1;
  inspection.report.clients = {client(-1, -1)};
  inspection.report.clients[0].peer = "[::1]:50000";
  CHECK(inspection_text(inspection) ==
        "The store at [::1]:29500 has 0 keys in 0 B of memory, and 0 clients.\n\nNo client waits.\n\nThe store has no "
        "keys.\n");
}

TEST_CASE("one missing rank is written in the singular") {
  Inspection inspection = stuck_job();
  inspection.absent_ranks = "5";
  CHECK_THAT(inspection_text(inspection), Catch::Contains("\nNot connected: rank 5\n"));
}

TEST_CASE("long lists are cut, and the remaining entries are counted") {
  Inspection inspection = stuck_job();
  ddp::wire::StoreReport& report = inspection.report;
  report.clients.clear();
  for (int rank = 0; rank < 1000; ++rank) report.clients.push_back(client(rank, 5000, {"/go"}));
  for (int i = 0; i < 40; ++i) report.clients.push_back(client(-1, 100, {"/other/" + std::to_string(i)}));
  report.client_count = 30'001;
  report.keys.clear();
  for (int i = 0; i < 1000; ++i) report.keys.push_back({"/key/" + std::to_string(i), 1, -1});
  report.key_count = 4000;
  const std::string text = inspection_text(inspection);
  CHECK_THAT(text, Catch::Contains("\n1000 clients wait for \"/go\":\n") &&
                       Catch::Contains("  ... and 980 more (--json prints all)\n") &&
                       Catch::Contains("\nClients wait for 21 other keys as well (--json prints all)\n") &&
                       Catch::Contains("\nThe server sent 1040 of 30001 clients.\n") &&
                       Catch::EndsWith("  ... and 3950 more (the server sent 1000, --json prints these)\n"));
  CHECK(lines_with(text, "  rank ") == static_cast<int>(limits::kInspectedClients));
  CHECK(lines_with(text, "/key/") == static_cast<int>(limits::kInspectedKeys));
}

TEST_CASE("names from other processes are escaped for the terminal") {
  CHECK(printable("plain ~ text") == "plain ~ text");
  CHECK(printable(std::string("\x1b[31m\\\0\xc3\xa4", 9)) == "\\x1b[31m\\x5c\\x00\\xc3\\xa4");
  CHECK(printable(std::string(8192, 'k')) == std::string(limits::kInspectedBytes, 'k') + "... (8192 bytes)");
  Inspection inspection = stuck_job();
  for (Client& each : inspection.report.clients) each.peer = each.name = "\x1b]0;gotcha\a";
  inspection.absent_ranks = "\x1b";
  const std::string text = inspection_text(inspection);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\a') == std::string::npos);
}

TEST_CASE("the inspection of a store shows negative sizes in the answer as 0 B") {
  Inspection inspection{"h:1", "x", {}, ""};
  inspection.report.key_count = -5;
  inspection.report.table_bytes = -1;
  inspection.report.keys = {{"k", -9, -9}};
  inspection.report.clients = {client(0, 1)};
  inspection.report.clients[0].awaited_keys = -3;
  inspection.report.clients[0].held_bytes = -3;
  CHECK_THAT(inspection_text(inspection), Catch::Contains("0 B"));
}

TEST_CASE("the JSON form contains everything except the inspecting client") {
  Inspection inspection{"h:1", "127.0.0.1:50000", {}, "2-3"};
  ddp::wire::StoreReport& report = inspection.report;
  report.key_count = 7;
  report.table_bytes = 900;
  report.client_count = 3;
  report.keys = {{"/k", 2, -1}, {"/q", 9, 4}};
  report.clients.resize(3);
  report.clients[0] = {"127.0.0.1:1", 1, "node0:7", 5000, 4000, 3, {"/a", "/b"}, 10};
  report.clients[1] = {"127.0.0.1:50000", -1, "", 1, -1, 0, {}, 0};
  report.clients[2] = {"127.0.0.1:2", -1, "", 6000, -1, 0, {}, 0};
  CHECK(Json::parse(inspection_json(inspection)) == Json::parse(R"({
    "where": "h:1", "key_count": 7, "table_bytes": 900, "client_count": 2, "absent_ranks": "2-3",
    "keys": [{"name": "/k", "bytes": 2, "queued": null}, {"name": "/q", "bytes": 9, "queued": 4}],
    "clients": [
      {"peer": "127.0.0.1:1", "rank": 1, "name": "node0:7", "connected_ms": 5000, "waiting_ms": 4000,
       "awaited_keys": 3, "awaited": ["/a", "/b"], "held_bytes": 10},
      {"peer": "127.0.0.1:2", "rank": null, "name": null, "connected_ms": 6000, "waiting_ms": null,
       "awaited_keys": 0, "awaited": [], "held_bytes": 0}]})"));
}

TEST_CASE("keys with any bytes are valid JSON") {
  Inspection inspection{"h:1", "", {}, ""};
  inspection.report.keys = {{std::string("\xff\x00\x1b\"", 4), 1, -1}};
  CHECK(Json::parse(inspection_json(inspection))["keys"][0]["name"].get<std::string>() ==
        std::string("\xef\xbf\xbd\x00\x1b\"", 6));
}

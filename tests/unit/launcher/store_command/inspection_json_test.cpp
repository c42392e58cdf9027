#include <nlohmann/json.hpp>

#include "launcher/store_command/inspection.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Json = nlohmann::json;

TEST_CASE("the JSON form has all that was sent but the inspector itself") {
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

TEST_CASE("keys of any bytes are JSON") {
  Inspection inspection{"h:1", "", {}, ""};
  inspection.report.keys = {{std::string("\xff\x00\x1b\"", 4), 1, -1}};
  CHECK(Json::parse(inspection_json(inspection))["keys"][0]["name"].get<std::string>() ==
        std::string("\xef\xbf\xbd\x00\x1b\"", 6));
}

#include "launcher/see/report/history_json.h"

#include <nlohmann/json.hpp>

#include <limits>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Json = nlohmann::json;

TEST_CASE("a history is one line of JSON") {
  LaunchPlan plan;
  plan.run_id = "r1";
  AttemptHistory history;
  history.attempt = 1;
  history.seconds = 2.5;
  history.columns = 2;
  history.column_seconds = 1.25;
  RankHistory rank;
  rank.rank = 3;
  rank.node = "bad \xff\n";
  rank.strip = "c w";
  rank.waited_for = "0 10";
  rank.seconds = {0, 1.25, 0, 1.25};
  rank.waited_for_seconds = 1.25;
  rank.steps = 7;
  rank.step_median = 0.1;
  rank.step_p99 = std::numeric_limits<double>::infinity();
  rank.dropped = 4;
  history.ranks.push_back(rank);
  CollectiveHistory row;
  row.operation = "all_reduce";
  row.bus_rate = 1e9;
  row.last_rank = 3;
  row.last_count = 5;
  history.collectives.push_back(row);
  history.curve_seconds = 0.25;
  history.curves = {{"loss", {2.5, std::nullopt, -1e-5}, {}, {}}};
  const std::string line = history_line(plan, "node0", history, WallTime(0ms));
  CHECK(line.find('\n') == std::string::npos);
  const Json json = Json::parse(line);
  CHECK(json.at("event") == "history");
  CHECK(json.at("run_id") == "r1");
  CHECK(json.at("recording") == "steps");
  CHECK(json.at("ranks") == Json::array({{{"rank", 3},
                                          {"node", "bad \xef\xbf\xbd\n"},
                                          {"strip", "c w"},
                                          {"waited_for", "0 10"},
                                          {"seconds", {0.0, 1.25, 0.0, 1.25, 0.0, 0.0, 0.0}},
                                          {"waited_for_seconds", 1.25},
                                          {"steps", 7},
                                          {"step_median_seconds", 0.1},
                                          {"step_p99_seconds", nullptr},
                                          {"dropped", 4}}}));
  CHECK(json.at("curves").at(0).at("mean") == Json::array({2.5, nullptr, -1e-5}));
  CHECK(read_history(json).curves == as_logged(history).curves);
  CHECK(read_history(json).curve_seconds == 0.25);
  const Json collective = json.at("collectives").at(0);
  CHECK(collective.at("bus_bytes_per_second") == 1e9);
  CHECK(collective.at("last_rank") == 3);
  CHECK_FALSE(collective.contains("gpu_median_seconds"));
}

TEST_CASE("the history that the launcher's own report shows is the one of the event log") {
  AttemptHistory history;
  history.seconds = history_seconds(2'500'000'001);
  history.ranks.push_back({.rank = 1, .strip = "c", .seconds = {0, 1.2345678, 2.0005}, .waited_for_seconds = 0.0014});
  history.ranks.back().step_median = history_seconds(123'456'789);
  history.curves = {{"rate", {1.23456e-7, std::nullopt}, {1e-10, std::nullopt}, {2, std::nullopt}}};
  history.collectives.push_back({.operation = "all_reduce", .median = history_seconds(1'234'567)});
  history.collectives.back().algorithm_rate = 1.5e9 / 7;
  history.collectives.back().bus_rate = 2.5e9 / 7;
  CHECK(read_history(Json::parse(history_line({}, "node0", history, WallTime(0ms)))) == as_logged(history));
}

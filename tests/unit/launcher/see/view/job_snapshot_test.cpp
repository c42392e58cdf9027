#include "launcher/see/view/job_snapshot.h"

#include <limits>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/made_snapshot.h"

using namespace ddp::launcher;

TEST_CASE("a snapshot is unchanged after it was written and read") {
  JobSnapshot job = ddp::test::training_job(3, 2);
  ddp::test::stall(job, 1);
  job.nodes.push_back({"spare0", 3, 0});
  job.ranks[0].rss_bytes.reset();
  job.ranks[1].gpu_use.reset();
  job.ranks[2].phase = "evaluation (validation set)";
  job.ranks[2].collective_number = std::numeric_limits<std::uint64_t>::max();
  job.has_all_ranks = false;
  for (int state = 0; state < kRankStates; ++state) {
    job.ranks[0].state = static_cast<RankState>(state);
    const auto read = read_snapshot(json_of(job));
    REQUIRE(read);
    CHECK(read.value() == job);
  }
  const auto empty = read_snapshot(json_of({}));
  REQUIRE(empty);
  CHECK(empty.value() == JobSnapshot{});
}

TEST_CASE("shares and times are rounded in JSON, and numbers that are not finite are null") {
  JobSnapshot job = ddp::test::training_job(1);
  job.ranks[0].computing = 2.0 / 3;
  job.uptime = 1.23456;
  job.steps_per_second = std::numeric_limits<double>::quiet_NaN();
  job.values = {{"loss", std::numeric_limits<double>::infinity()}};
  const std::string text = json_of(job);
  CHECK_THAT(text, Catch::Contains("\"computing\":0.6667,") && Catch::Contains("\"uptime_seconds\":1.235,") &&
                       Catch::Contains("\"steps_per_second\":null,") &&
                       Catch::Contains("\"values\":[{\"name\":\"loss\",\"value\":null}]"));
  CHECK(text.find('\n') == std::string::npos);
  CHECK(read_snapshot(text));
}

TEST_CASE("names with any bytes are valid JSON") {
  JobSnapshot job;
  job.program = "\"quoted\" \\ \x1b[31m \xff\xfe";
  job.values = {{"a\"b\n", 1}};
  const auto read = read_snapshot(json_of(job));
  REQUIRE(read);
  CHECK(read.value().program == "\"quoted\" \\ \x1b[31m \xef\xbf\xbd\xef\xbf\xbd");
  CHECK(read.value().values == job.values);
}

TEST_CASE("read_snapshot() refuses text that is no snapshot and replaces invalid fields by defaults") {
  for (const char* text : {"", "null", "[]", "{", "{\"schema\":2}", "{}", "\xff", "{\"schema\":\"1\"}"}) {
    CAPTURE(text);
    CHECK_FALSE(read_snapshot(text));
  }
  const auto read = read_snapshot(
      R"({"schema":1,"version":7,"run_id":null,"attempt":1e300,"max_restarts":-99999999999,"uptime_seconds":"x",
          "step":-1,"values":["x",{"name":7}],"culprits":["x",{}],"nodes":[7,{}],"ranks":[null,{"rank":[],"state":"dancing",
          "cpus":{},"gpu_use":-5,"rss_bytes":1.5}]})");
  REQUIRE(read);
  CHECK(read.value().attempt == 0);
  CHECK(read.value().max_restarts == 0);
  CHECK(read.value().step == 0);
  CHECK(read.value().culprits.empty());
  CHECK(read.value().nodes.size() == 1);
  REQUIRE(read.value().ranks.size() == 1);
  CHECK(read.value().ranks[0].state == RankState::unknown);
  CHECK(read.value().ranks[0].gpu_use == 0);
  CHECK_FALSE(read_snapshot(std::string(1'000'000, '[')));
  std::string many = R"({"schema":1,"ranks":[{})";
  for (std::size_t i = 0; i < ddp::limits::kViewRanks; ++i) many += ",{}";
  CHECK_FALSE(read_snapshot(many + "]}"));
}

#include "launcher/see/view/chrome_trace.h"

#include <nlohmann/json.hpp>

#include <set>
#include <vector>

#include "support/catch.h"
#include "support/made_picture.h"

using namespace ddp;
using namespace ddp::launcher;
using Json = nlohmann::json;
using wire::RecordKind;

namespace {

constexpr std::uint64_t kOrigin = 5'000'000'000'000;
constexpr std::uint64_t kMs = 1'000'000;

std::uint64_t at(double ms) {
  return kOrigin + static_cast<std::uint64_t>(ms * 1e6);
}

ChromeTrace a_trace(bool is_sampled = false) {
  return ChromeTrace({"1.2", "run", "train \"x\"", "2026-11-26T07:00:00Z", kOrigin, is_sampled});
}

// Returns the document so far, which must be complete JSON at any time.
Json document(ChromeTrace& trace) {
  const std::string text = trace.take() + trace.ending();
  return Json::parse(text);
}

std::vector<Json> events(const Json& document, const std::string& kind) {
  std::vector<Json> found;
  for (const Json& event : document.at("traceEvents")) {
    if (event.at("ph") == kind) found.push_back(event);
  }
  return found;
}

RankRecords of_rank(int rank, std::vector<Record> records) {
  RankRecords all;
  all.rank = rank;
  all.groups = {{}, {77, "world", 2}};
  all.names = {"", "bucket \"0\""};
  all.records = std::move(records);
  return all;
}

Record collective(std::uint32_t number, double begin, double end, std::uint64_t bytes = 4096) {
  return {RecordKind::collective, 0, 1, 1, number, at(begin), at(end), bytes};
}

}  // namespace

TEST_CASE("records become slices on the threads of their rank") {
  ChromeTrace trace = a_trace();
  trace.add_records(of_rank(3, {{RecordKind::step, 0, 0, 0, 12, at(1), at(5), 0},
                                collective(40, 2, 4),
                                {RecordKind::gpu, 0, 1, 1, 40, at(2.5), at(3.5), 4096},
                                {RecordKind::wait, 0, 1, 0, 40, at(3), at(4), 0},
                                {RecordKind::phase, 7, 0, 0, 0, at(5), at(6), 0},
                                {RecordKind::transfer, 9, 1, 0, 1, at(6), at(7), 8}}),
                    at(8));
  const Json whole = document(trace);
  const auto slices = events(whole, "X");
  REQUIRE(slices.size() == 6);
  CHECK(slices[0] == Json::parse(R"({"ph":"X","pid":3,"tid":0,"name":"step 12","cat":"step","ts":1000,"dur":4000})"));
  const Json call = Json::parse(R"--({"ph":"X","pid":3,"tid":1,"name":"all_reduce ('bucket \"0\"')",
      "cat":"collective","ts":2000,"dur":2000,"args":{"group":"world","number":40,"bytes":4096}})--");
  CHECK(slices[1] == call);
  CHECK(slices[2].at("tid") == 2);
  CHECK(slices[3].at("tid") == 4);
  CHECK(slices[3].at("args") == Json::parse(R"({"group":"world","number":40})"));
  CHECK(slices[4].at("tid") == 3);
  CHECK(slices[4].at("name") == "data loading");
  CHECK(slices[5].at("name") == "send");
  CHECK(slices[5].at("cat") == "transfer");
  CHECK(whole.at("displayTimeUnit") == "ms");
  CHECK(whole.at("otherData").at("program") == "train \"x\"");
  std::set<std::string> names;
  for (const Json& event : events(whole, "M")) {
    if (event.at("pid") == 3) names.insert(event.at("name").get<std::string>());
  }
  CHECK(names == std::set<std::string>{"process_name", "process_sort_index", "thread_name", "thread_sort_index"});
}

TEST_CASE("collectives that overlap get their own rows, and other overlapping records are asynchronous") {
  ChromeTrace trace = a_trace();
  std::vector<Record> records;
  for (std::uint32_t i = 0; i < 6; ++i) records.push_back(collective(i + 1, i, i + 10));
  trace.add_records(of_rank(0, records), at(20));
  const Json whole = document(trace);
  std::set<int> threads;
  for (const Json& slice : events(whole, "X")) threads.insert(slice.at("tid").get<int>());
  CHECK(threads == std::set<int>{1, 5, 6, 7});
  const auto begins = events(whole, "b");
  const auto ends = events(whole, "e");
  REQUIRE(begins.size() == 2);
  REQUIRE(ends.size() == 2);
  CHECK(begins[0].at("id") == ends[0].at("id"));
  CHECK(begins[0].at("id") != begins[1].at("id"));
  CHECK(begins[0].at("args").at("number") == 5);
  CHECK(ends[0].at("ts") == 14000);
}

TEST_CASE("a slice that began before the trace does not cross the next one") {
  ChromeTrace trace = a_trace();
  trace.add_records(of_rank(0, {{RecordKind::phase, 1, 0, 0, 0, kOrigin - 8 * kMs, at(4), 0},
                                {RecordKind::phase, 2, 0, 0, 0, at(4), at(9), 0},
                                {RecordKind::phase, 3, 0, 0, 0, kOrigin - 9 * kMs, kOrigin - 8 * kMs, 0}}),
                    at(10));
  const auto slices = events(document(trace), "X");
  REQUIRE(slices.size() == 3);
  CHECK((slices[0].at("ts") == 0 && slices[0].at("dur") == 4000));
  CHECK((slices[1].at("ts") == 4000 && slices[1].at("dur") == 5000));
  CHECK((slices[2].at("ts") == 0 && slices[2].at("dur") == 0));
}

TEST_CASE("an arrow leads from the last rank to the one that waited for it") {
  ChromeTrace trace = a_trace();
  trace.add_records(of_rank(0, {collective(1, 1, 9)}), at(10));
  CHECK(events(document(trace), "s").empty());
  trace.add_records(of_rank(1, {collective(1, 8, 9)}), at(10));
  const Json whole = Json::parse("{\"traceEvents\":[" + trace.take().substr(1) + trace.ending());
  const auto starts = events(whole, "s");
  const auto ends = events(whole, "f");
  REQUIRE(starts.size() == 1);
  REQUIRE(ends.size() == 1);
  CHECK(starts[0].at("pid") == 1);
  CHECK(starts[0].at("ts") == 8000);
  CHECK(ends[0].at("pid") == 0);
  CHECK(ends[0].at("tid") == 1);
  CHECK(ends[0].at("bp") == "e");
  CHECK(ends[0].at("id") == starts[0].at("id"));
  CHECK(ends[0].at("ts") == 8000);
}

TEST_CASE("ranks of another attempt do not complete a collective") {
  ChromeTrace trace = a_trace();
  trace.begin_attempt(0, 2, at(0));
  trace.add_records(of_rank(0, {collective(1, 1, 9)}), at(10));
  trace.end_attempt(false, "attempt 0 failed", at(11));
  trace.begin_attempt(1, 2, at(12));
  trace.add_records(of_rank(1, {collective(1, 15, 16)}), at(17));
  const Json whole = document(trace);
  CHECK(events(whole, "s").empty());
  const auto marks = events(whole, "i");
  REQUIRE(marks.size() == 3);
  CHECK(marks[0].at("s") == "g");
  CHECK(marks[0].at("name") == "attempt 0 begins with 2 ranks");
  CHECK(marks[1].at("name") == "attempt 0 failed");
}

TEST_CASE("the bytes of collectives are counted per second once the records of all nodes are there") {
  ChromeTrace trace = a_trace();
  trace.add_records(of_rank(0, {collective(1, 100, 200, 1000), collective(2, 1100, 1200, 50)}), at(1300));
  trace.add_records(of_rank(1, {collective(1, 100, 210, 1000)}), at(1300));
  trace.add(unchanged_picture({}, at(2900)));
  CHECK(events(document(trace), "C").empty());
  trace.add(unchanged_picture({}, at(6000)));
  trace.add_records(of_rank(1, {collective(3, 100, 210, 1000)}), at(1300));  // too late
  trace.add(unchanged_picture({}, at(9000)));
  const auto counts = events(Json::parse("{\"traceEvents\":[" + trace.take().substr(1) + trace.ending()), "C");
  REQUIRE(counts.size() == 3);
  CHECK(counts[0].at("args").at("bytes") == 2000);
  CHECK(counts[0].at("ts") == 0);
  CHECK(counts[1].at("args").at("bytes") == 50);
  CHECK(counts[2].at("args").at("bytes") == 0);
  CHECK(counts[2].at("ts") == 2'000'000);
}

TEST_CASE("a sample of the collectives gives an estimate of their bytes") {
  ChromeTrace trace = a_trace(/*is_sampled=*/true);
  trace.add_records(of_rank(0, {collective(1, 100, 200, 1000)}), at(300));
  trace.add(unchanged_picture({}, at(4000)));
  const auto counts = events(document(trace), "C");
  REQUIRE_FALSE(counts.empty());
  CHECK(counts[0].at("args").at("bytes") == 8000);
  CHECK(counts[0].at("name") == "bytes reduced per second (estimate)");
}

TEST_CASE("unfinished operations of a rank are shown at the end of the attempt") {
  ChromeTrace trace = a_trace();
  RankView view;
  view.rank = 1;
  view.pid = 123;
  view.node = "b";
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.waiting_threads = 1;
  view.page.groups.push_back({"world", 1, 2, 0, 41, 40, 40, 0, 0});
  view.arrivals = {{{41, at(20)}}};
  RankView other = view;
  other.rank = 0;
  other.page.waiting_threads = 0;
  other.page.groups[0].called = 40;
  trace.add(made_picture({other, view}, {}, at(30)));
  trace.add(made_picture({other, view}, {}, at(31)));
  trace.end_attempt(false, "the job has failed", at(50));
  const Json whole = document(trace);
  const auto slices = events(whole, "X");
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].at("pid") == 1);
  CHECK(slices[0].at("name") == "collective (unfinished)");
  CHECK(slices[0].at("ts") == 20000);
  CHECK(slices[0].at("dur") == 30000);
  CHECK(slices[0].at("args") == Json::parse(R"({"group":"world","number":41})"));
  std::vector<std::string> labels;
  for (const Json& event : events(whole, "M")) {
    if (event.at("name") == "process_labels") labels.push_back(event.at("args").at("labels").get<std::string>());
  }
  CHECK(labels == std::vector<std::string>{"b, pid 123", "b, pid 123"});
  const auto counts = events(whole, "C");
  REQUIRE(counts.size() == 1);
  CHECK(counts[0].at("args").at("ranks") == 1);
}

TEST_CASE("a collective recorded after the last sample is not shown as unfinished") {
  ChromeTrace trace = a_trace();
  RankView view;
  view.rank = 1;
  view.pid = 123;
  view.page.is_written = true;
  view.page.groups.push_back({"world", 1, 2, 0, 41, 40, 40, 0, 0});
  view.seen_at = at(20);
  trace.add(made_picture({view}, {}, at(30)));
  trace.add_records(of_rank(1, {collective(41, 20, 31)}), at(32));
  trace.end_attempt(false, "failure", at(50));
  CHECK(events(document(trace), "X").size() == 1);
}

TEST_CASE("no operation is shown as unfinished after a success") {
  ChromeTrace trace = a_trace();
  RankView view;
  view.rank = 1;
  view.pid = 123;
  view.page.is_written = true;
  view.page.phase = RankPhase::evaluation;
  view.page.phase_since = at(10);
  view.page.groups.push_back({"world", 1, 2, 0, 41, 40, 40, 0, 0});
  view.seen_at = at(20);
  trace.add(made_picture({view}, {}, at(30)));
  trace.end_attempt(true, "success", at(50));
  const auto slices = events(document(trace), "X");
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].at("name") == "evaluation");
  CHECK(slices[0].at("cat") == "phase");
}

TEST_CASE("the training has counters that show changes only") {
  ChromeTrace trace = a_trace();
  TrainingMoment moment;
  moment.memory_bytes = 1000;
  for (std::uint64_t i = 0; i <= 40; ++i) {
    moment.steps = i;
    moment.values = {{"loss", i < 20 ? 2.5 : 1.5}, {"bad", std::numeric_limits<double>::quiet_NaN()}};
    trace.add(moment, at(100 * (i + 1)));
  }
  std::map<std::string, std::vector<Json>> counters;
  for (const Json& event : events(document(trace), "C")) counters[event.at("name")].push_back(event.at("args"));
  CHECK(counters["loss"] == std::vector<Json>{{{"value", 2.5}}, {{"value", 1.5}}});
  CHECK(counters["memory"] == std::vector<Json>{{{"bytes", 1000}}});
  REQUIRE_FALSE(counters["steps/s"].empty());
  CHECK(counters["steps/s"].back().at("steps/s").get<double>() == Approx(10).epsilon(0.1));
  CHECK_FALSE(counters.contains("bad"));
}

TEST_CASE("a reported value named memory is kept apart from the launcher's memory counter") {
  ChromeTrace trace = a_trace();
  TrainingMoment moment;
  moment.memory_bytes = 1000;
  moment.values = {{"memory", 12.5}};
  for (std::uint64_t i = 1; i <= 3; ++i) trace.add(moment, at(1500 * i));
  CHECK(events(document(trace), "C").size() == 1);
}

TEST_CASE("clock errors and dropped records are noted at the end of the trace") {
  ChromeTrace trace = a_trace();
  RankRecords records = of_rank(5, {collective(1, 1, 2)});
  records.node = "b";
  records.clock_error = 1234;
  records.dropped = 7;
  trace.add_records(records, at(3));
  const Json other = document(trace).at("otherData");
  CHECK(other.at("clock_error_ns") == Json::parse(R"({"b":1234})"));
  CHECK(other.at("dropped_records") == Json::parse(R"({"5":7})"));
  CHECK(other.at("version") == "1.2");
  CHECK(other.at("run_id") == "run");
}

TEST_CASE("the Chrome trace leaves out invalid records and escapes control characters in names") {
  ChromeTrace trace = a_trace();
  RankRecords records = of_rank(0, {collective(1, 1, 2), collective(2, 3, 4)});
  records.names[1] = "\xff\"\\\n</script>";
  records.groups[1].name = "\x01";
  records.records[1].group = 9;
  records.records.push_back({RecordKind::step, 0, 0, 0, 1, at(9), at(8), 0});
  records.records.push_back({static_cast<RecordKind>(77), 0, 0, 0, 1, at(8), at(9), 0});
  trace.add_records(records, at(10));
  const auto slices = events(document(trace), "X");
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].at("name") == "all_reduce ('\\xff\"\\\\x0a</script>')");
}

#include "launcher/see/explain/flight_dump.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

// An entry as PyTorch 2.4 and newer write it.
std::string entry(int record, std::string_view group, int number, std::string_view name, std::string_view state,
                  bool is_retired, bool is_p2p = false) {
  const std::string text(is_retired ? "true" : "false");
  return R"({"record_id": )" + std::to_string(record) + R"(, "pg_id": 0, "process_group": [")" + std::string(group) +
         R"(", "undefined"], "collective_seq_id": )" + std::to_string(is_p2p ? 0 : number) + R"(, "p2p_seq_id": )" +
         std::to_string(is_p2p ? number : 0) + R"(, "op_id": 7, "profiling_name": ")" + std::string(name) +
         R"(", "input_sizes": [[2, 3], [4]], "input_dtypes": ["Float"], "output_sizes": [[2, 3]], "state": ")" +
         std::string(state) + R"(", "is_p2p": )" + (is_p2p ? "true" : "false") + R"(, "retired": )" + text + "}";
}

std::string dump(const std::string& entries) {
  return R"({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"},
    "5": {"name": "5", "desc": "dp", "ranks": "[2, 4]"}},
    "pg_status": {"0": {"last_enqueued_collective": "9", "last_completed_collective": "8",
    "last_started_collective": "-1"}}, "entries": [)" +
         entries + "]}";
}

std::vector<CollectiveRecords> read(const std::string& bytes, std::string_view name = "trace_rank_2") {
  auto records = read_flight_dump(bytes, name);
  REQUIRE(records.ok());
  return std::move(records).value();
}

// A text in a pickle.
std::string text(std::string_view text) {
  return std::string{'X', static_cast<char>(text.size()), '\0', '\0', '\0'} + std::string(text);
}

}  // namespace

TEST_CASE("the rank of a flight recorder dump is read from its file name") {
  CHECK(rank_of_dump("/tmp/nccl_trace_rank_3") == 3);
  CHECK(rank_of_dump("dumps.7/comm_lib_trace_rank_12.json") == 12);
  CHECK(rank_of_dump("rank3_20261104.pickle") == 3);
  CHECK(rank_of_dump("trace15") == 15);
  CHECK(rank_of_dump("trace_15.json") == 15);
  CHECK_FALSE(rank_of_dump("trace").has_value());
  CHECK_FALSE(rank_of_dump("").has_value());
  CHECK_FALSE(rank_of_dump("rank_99999999999999").has_value());
}

TEST_CASE("the calls in a flight recorder dump are grouped by process group") {
  const auto records = read(dump(entry(0, "0", 1, "nccl:all_reduce", "completed", true) + "," +
                                 entry(1, "5", 1, "nccl:broadcast", "started", false) + "," +
                                 entry(2, "0", 2, "nccl:barrier", "scheduled", false) + "," +
                                 entry(3, "0", 1, "nccl:send 2->0", "scheduled", true, true)));
  REQUIRE(records.size() == 2);
  CHECK(records[0].rank == 2);
  CHECK(records[0].group == "0");
  CHECK(records[0].description == "default_pg");
  CHECK(records[0].members == std::vector{0, 1, 2});
  CHECK(records[0].last_enqueued == 2);
  CHECK(records[0].last_completed == 1);
  CHECK(records[0].has_all_calls);
  REQUIRE(records[0].calls.size() == 3);
  CHECK(records[0].calls[0] == RecordedCall{1, "all_reduce", 10, "Float", CallState::completed, false});
  CHECK(records[0].calls[1].state == CallState::enqueued);
  CHECK(records[0].calls[2].state == CallState::timed_out);  // retired, but not completed
  CHECK(records[0].calls[2].is_p2p);
  CHECK(records[1].group == "5");
  CHECK(records[1].members == std::vector{2, 4});
}

TEST_CASE("a retired Gloo call counts as completed or failed") {
  const auto records = read(dump(entry(0, "0", 1, "gloo:all_reduce", "scheduled", true)));
  CHECK(records[0].calls[0].state == CallState::ended);
  CHECK(records[0].last_completed == 1);
}

TEST_CASE("a full flight recorder does not contain the first calls") {
  const auto records = read(dump(entry(40, "0", 41, "nccl:all_reduce", "completed", true)));
  REQUIRE(records.size() == 1);  // nothing is known about group 5
  CHECK_FALSE(records[0].has_all_calls);
  CHECK(records[0].last_enqueued == 41);
}

TEST_CASE("a dump shows that a rank has called nothing") {
  const auto records = read(R"({"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}},
                               "pg_status": {}, "comm_lib_version": ""})");
  REQUIRE(records.size() == 1);
  CHECK(records[0].group == "0");
  CHECK(records[0].last_enqueued == 0);
  CHECK(records[0].has_all_calls);
}

TEST_CASE("a dump without calls uses the counters of the default group") {
  const auto records = read(dump(""));
  REQUIRE(records.size() == 1);
  CHECK(records[0].last_enqueued == 9);
  CHECK(records[0].last_completed == 8);
  CHECK_FALSE(records[0].is_dump);
}

TEST_CASE("dumps of PyTorch 2.2 and 2.3 are parsed") {
  // The first is a list. Its groups have only the rank's own number, except the default group.
  const auto old = read(R"([{"pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce", "input_sizes": [[8]],
                            "output_sizes": [[8]], "state": "started", "retired": false},
                           {"pg_id": 3, "seq_id": 1, "profiling_name": "nccl:all_reduce", "input_sizes": [[8]],
                            "output_sizes": [[8]], "state": "started", "retired": false}])");
  REQUIRE(old.size() == 2);
  CHECK(old[0].group == "0");
  CHECK(old[0].has_all_calls);
  CHECK(old[1].group.empty());

  // {"version": "1.4", "pg_config": {0: [0, 1], 2: [0, 1]}, "entries": [{"pg_id": 2, "seq_id": 4, …}]}
  const std::string call =
      "}(" + text("pg_id") + "K\2" + text("seq_id") + "K\4" + text("profiling_name") + text("nccl:send 0->1") + "u";
  const std::string pair = "](K" + std::string(1, '\0') + "K\1e";
  const auto newer = read("\x80\2}(" + text("version") + text("1.4") + text("pg_config") + "}(K" +
                              std::string(1, '\0') + pair + "K\2" + pair + "u" + text("entries") + "](" + call + "eu.",
                          "nccl_trace_rank_0");
  REQUIRE(newer.size() == 1);
  CHECK(newer[0].group == "of ranks 0-1 #2");  // the default group has the same ranks
  CHECK(newer[0].members == std::vector{0, 1});
  CHECK(newer[0].has_mixed_numbers);
  REQUIRE(newer[0].calls.size() == 1);
  CHECK(newer[0].calls[0].number == 4);
  CHECK(newer[0].calls[0].is_p2p);
}

TEST_CASE("files that are no flight recorder dumps are rejected") {
  CHECK_FALSE(read_flight_dump("{}", "rank1").ok());
  CHECK_FALSE(read_flight_dump("[{\"a\": 1}]", "rank1").ok());
  CHECK_FALSE(read_flight_dump("\x80\2K\1.", "rank1").ok());
  CHECK_FALSE(read_flight_dump("no dump", "rank1").ok());
  CHECK(read_flight_dump(dump(""), "dump").error().message == "the name of the dump \"dump\" does not end in its rank");
  CHECK(may_be_flight_dump(dump("")));
  CHECK_FALSE(may_be_flight_dump("step 3: profiling_name"));
  CHECK_FALSE(may_be_flight_dump("{\"loss\": 3}"));
}

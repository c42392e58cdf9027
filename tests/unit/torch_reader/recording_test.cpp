#include "torch_reader/recording.h"

#include <string>

#include "support/catch.h"

using namespace ddp::torch_reader;

namespace {

std::string entry(int number, const std::string& name, const std::string& more = "",
                  const std::string& retired = "true") {
  return R"({"collective_seq_id":)" + std::to_string(number) + R"(,"profiling_name":")" + name +
         R"(","process_group":["0","default_pg"],"is_p2p":false,"retired":)" + retired + R"(,"time_created_ns":)" +
         std::to_string(1000 + number) +
         (more.empty() ? R"(,"input_dtypes":["Float"],"input_sizes":[[2,3],[4]])" : more) + "}";
}

std::string recording(const std::string& entries) {
  return R"({"entries":[)" + entries + R"(],"pg_status":{}})";
}

const std::string kWorld = R"({"name":"0","description":"","rank":1,"size":2,"ranks":[],"made_at":1000})"
                           "\n";

std::vector<RecordedGroup> read(const std::string& entries, const std::string& lines = kWorld) {
  auto groups = read_recording(recording(entries), read_lines("{\"pid\":7}\n" + lines), Recorder::gloo);
  REQUIRE(groups);
  return groups.value();
}

std::uint64_t fingerprint(const std::string& one) {
  return read(one).at(0).calls.at(0).fingerprint;
}

}  // namespace

TEST_CASE("the messages of a worker's Python are parsed, and other lines are skipped") {
  const WorkerLines lines = read_lines("{\"pid\":7}\nnonsense\n[]\n{\"name\":\"x\"}\n" + kWorld +
                                       R"({"name":"1","description":"dp","rank":0,"size":1,"ranks":[1],"made_at":5})"
                                       "\n"
                                       R"({"name":"2","description":"dp","rank":3,"size":1,"ranks":[1],"made_at":5})"
                                       "\n"
                                       R"({"name":"not whole)");
  CHECK(lines.pid == 7);
  REQUIRE(lines.groups.size() == 2);
  CHECK(lines.groups[0].name == "0");
  CHECK(lines.groups[0].rank == 1);
  CHECK(lines.groups[1].description == "dp");
  CHECK(lines.groups[1].ranks == std::vector{1});
  CHECK(read_lines("").pid == 0);
}

TEST_CASE("a recording gives the calls and the number of finished ones") {
  const auto groups =
      read(entry(3, "gloo:all_reduce") + "," + entry(4, "gloo:barrier", R"(,"input_dtypes":[],"input_sizes":[])") +
           "," + entry(5, "nccl:_all_gather_base", "", "false"));
  REQUIRE(groups.size() == 1);
  const RecordedGroup& world = groups[0];
  CHECK(world.called == 5);
  CHECK(world.finished == 4);
  REQUIRE(world.calls.size() == 3);
  CHECK(world.calls[0].operation == "all_reduce");
  CHECK(world.calls[0].type == "f32");
  CHECK(world.calls[0].count == 10);
  CHECK(world.calls[0].made_at == 1003);
  CHECK(world.calls[1].operation == "barrier");
  CHECK(world.calls[1].type.empty());
  CHECK(world.calls[2].operation == "_all_gather_base");
}

TEST_CASE("calls from before the group, between two ranks, or of an unknown group are left out") {
  std::string transfer = entry(6, "gloo:send");
  transfer.replace(transfer.find("\"is_p2p\":false"), 14, "\"is_p2p\":true");
  std::string other = entry(7, "gloo:all_reduce");
  other.replace(other.find("\"0\""), 3, "\"9\"");
  std::string former = entry(80, "gloo:all_reduce");
  former.replace(former.find("1080"), 4, "0999");
  CHECK_FALSE(read_recording(recording(former), read_lines(kWorld), Recorder::gloo));  // no JSON number begins with 0
  former.replace(former.find("0999"), 4, "999");
  const auto groups = read(transfer + "," + other + "," + former + "," + entry(1, "gloo:all_reduce"));
  CHECK(groups.at(0).called == 1);
  CHECK(groups.at(0).calls.size() == 1);
}

TEST_CASE("all calls are kept in their order") {
  std::string entries;
  for (int i = 40; i > 0; --i) entries += entry(i, "gloo:all_reduce") + (i > 1 ? "," : "");
  const auto groups = read(entries);
  REQUIRE(groups.at(0).calls.size() == 40);
  CHECK(groups[0].calls.front().sequence == 1);
  CHECK(groups[0].calls.back().sequence == 40);
}

TEST_CASE("the size of a call and the time when PyTorch noticed its end are known") {
  const std::string nccl =
      R"(,"time_discovered_completed_ns":1500,"input_dtypes":["BFloat16"],"input_sizes":[[2,3],[4]])";
  const std::string unknown = R"(,"time_discovered_completed_ns":0,"input_dtypes":["Complex"],"input_sizes":[[4]])";
  const auto calls = read(entry(1, "nccl:all_reduce", nccl) + "," + entry(2, "nccl:all_reduce", unknown) + "," +
                          entry(3, "gloo:all_reduce"))
                         .at(0)
                         .calls;
  REQUIRE(calls.size() == 3);
  CHECK((calls[0].bytes == 20 && calls[0].finished_at == 1500));
  CHECK((calls[1].bytes == 0 && calls[1].finished_at == 0));
  CHECK((calls[2].bytes == 40 && calls[2].finished_at == 0));
}

TEST_CASE("fingerprints differ only where ranks must not") {
  const auto with = [](const std::string& name, const std::string& types, const std::string& sizes) {
    return fingerprint(entry(1, name, R"(,"input_dtypes":)" + types + R"(,"input_sizes":)" + sizes));
  };
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") == with("gloo:all_reduce", R"(["Float"])", "[[2,2]]"));
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") != with("gloo:all_reduce", R"(["Float"])", "[[5]]"));
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") != with("gloo:all_reduce", R"(["Double"])", "[[4]]"));
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") != with("gloo:broadcast", R"(["Float"])", "[[4]]"));
  CHECK(with("gloo:gather", R"(["Float"])", "[[4]]") == with("gloo:gather", R"(["Double"])", "[[9]]"));
  CHECK(with("gloo:scatter", "[]", "[]") == with("gloo:scatter", R"(["Float"])", "[[4]]"));
  CHECK(with("ucc:all_reduce", R"(["Float"])", "[[4]]") == 0);
}

TEST_CASE("a recreated group, or one with other ranks, is a different group") {
  const auto identity = [](const std::string& lines) { return read("", lines).at(0).identity; };
  const std::string pair = R"({"name":"1","description":"","rank":0,"size":2,"ranks":[0,1],"made_at":1})"
                           "\n";
  const std::string others = R"({"name":"1","description":"","rank":0,"size":2,"ranks":[2,3],"made_at":1})"
                             "\n";
  CHECK(identity(pair) == identity(pair));
  CHECK(identity(pair) != identity(others));
  CHECK(identity(pair) != identity(pair + pair));
  // The children of two ranks have groups that look the same.
  const auto met_in = [&](const std::string& store) {
    return identity(R"({"name":"0","description":"","rank":0,"size":2,"ranks":[],"made_at":1,"store":")" + store +
                    "\"}\n");
  };
  CHECK(met_in("FileStore  /tmp/a") == met_in("FileStore  /tmp/a"));
  CHECK(met_in("FileStore  /tmp/a") != met_in("FileStore  /tmp/b"));
  CHECK(identity(pair) != 0);
}

TEST_CASE("text that is not a recording is an error") {
  const WorkerLines lines = read_lines(kWorld);
  for (const char* text : {"", "[", "7", "[]", R"({"entries":7})", R"({"entries":[7]})", R"({"entries":[{}]})",
                           R"({"entries":[{"process_group":[]}]})"}) {
    const auto groups = read_recording(text, lines, Recorder::gloo);
    CHECK((!groups || groups.value().at(0).called == 0));
  }
  const auto nothing = read_recording("{}", lines, Recorder::gloo);
  REQUIRE(nothing);
  CHECK(nothing.value().at(0).called == 0);
  CHECK(nothing.value().at(0).finished == 0);
}

TEST_CASE("NCCL calls are compared by the properties that NCCL compares") {
  const auto with = [](const std::string& name, const std::string& types, const std::string& sizes) {
    return fingerprint(entry(1, "nccl:" + name, R"(,"input_dtypes":)" + types + R"(,"input_sizes":)" + sizes));
  };
  const std::string f32 = R"(["Float"])";
  CHECK(with("all_reduce", f32, "[[4]]") == with("all_reduce", f32, "[[2,2]]"));
  CHECK(with("all_reduce", f32, "[[4]]") != with("all_reduce", f32, "[[5]]"));
  CHECK(with("all_reduce", f32, "[[4]]") != with("all_reduce", R"(["Int"])", "[[4]]"));
  CHECK(with("all_reduce", f32, "[[1]]") == with("all_reduce_barrier", f32, "[[1]]"));
  CHECK(with("all_reduce", f32, "[[4]]") != with("broadcast", f32, "[[4]]"));
  CHECK(with("broadcast", f32, "[[4]]") == with("broadcast", R"(["Byte"])", "[[16]]"));
  CHECK(with("broadcast", f32, "[[4]]") != with("broadcast", f32, "[[5]]"));
  CHECK(with("all_gather", f32, "[[4]]") == with("_all_gather_base", f32, "[[9]]"));
  CHECK(with("reduce_scatter", f32, "[[4]]") == with("_reduce_scatter_base", f32, "[[9]]"));
  CHECK(with("all_to_all", f32, "[[4]]") == with("all_to_allv", f32, "[[9]]"));
  for (const char* name : {"_broadcast_oop", "_reduce_oop", "coalesced", "allreduce_coalesced", "something_new"}) {
    CHECK(with(name, f32, "[[4]]") == 0);
  }
}

TEST_CASE("calls that were enqueued together are not compared") {
  const auto calls = read(entry(1, "nccl:all_reduce") + "," + entry(2, "nccl:all_reduce") + "," +
                          entry(2, "nccl:broadcast") + "," + entry(3, "nccl:all_reduce"))
                         .at(0)
                         .calls;
  REQUIRE(calls.size() == 4);
  CHECK(calls[0].fingerprint != 0);
  CHECK((calls[1].fingerprint == 0 && calls[2].fingerprint == 0));
  CHECK(calls[3].fingerprint != 0);
}

TEST_CASE("the last line marks the exit of the program") {
  const std::string line = R"({"pid": 7, "recorders": ["gloo"]})"
                           "\n";
  CHECK_FALSE(read_lines(line).has_ended);
  CHECK(read_lines(line + R"({"ended": true})"
                          "\n")
            .has_ended);
  CHECK_FALSE(read_lines(line + R"({"ended": true})").has_ended);  // it is not complete
}

TEST_CASE("the messages show which recorders exist") {
  CHECK(read_lines("{\"pid\":7}\n").has_gloo);
  CHECK_FALSE(read_lines("{\"pid\":7}\n").has_nccl);
  const WorkerLines lines = read_lines("{\"pid\":7,\"recorders\":[\"nccl\"]}\n");
  CHECK_FALSE(lines.has_gloo);
  CHECK(lines.has_nccl);
}

TEST_CASE("a group is read from the recorder of its backend") {
  const auto uses = [](const std::string& backend) {
    GroupLine line;
    line.backend = backend;
    return std::pair(may_use(line, Recorder::gloo), may_use(line, Recorder::nccl));
  };
  CHECK(uses("gloo") == std::pair(true, false));
  CHECK(uses("nccl") == std::pair(false, true));
  for (const char* both : {"", "undefined", "cpu:gloo,cuda:nccl"}) CHECK(uses(both) == std::pair(true, true));
}

TEST_CASE("a group with both backends is shown for the ones that the process has used") {
  const WorkerLines lines = read_lines("{\"pid\":7}\n" + kWorld);
  const auto made = [&](Recorder recorder, std::uint64_t called) {
    auto groups = groups_without_calls(lines, recorder);
    groups.at(0).called = called;
    return groups;
  };
  const auto shown = [&](std::uint64_t gloo, std::uint64_t nccl) {
    std::vector<Recorder> recorders;
    for (const auto& group : merge(made(Recorder::gloo, gloo), made(Recorder::nccl, nccl))) {
      recorders.push_back(group.recorder);
    }
    return recorders;
  };
  CHECK(shown(0, 0) == std::vector{Recorder::gloo});
  CHECK(shown(1, 0) == std::vector{Recorder::gloo});
  CHECK(shown(0, 1) == std::vector{Recorder::nccl});
  CHECK(shown(1, 1) == std::vector{Recorder::gloo, Recorder::nccl});
  CHECK(made(Recorder::gloo, 0).at(0).identity != made(Recorder::nccl, 0).at(0).identity);
}

TEST_CASE("NCCL's recorder shows groups that were split from others") {
  const WorkerLines lines = read_lines("{\"pid\":7}\n" + kWorld);
  const std::string config =
      R"({"pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1]"},)"
      R"("3":{"name":"3","desc":"mesh_tp","ranks":"[1, 5]"},"4":{"name":"4","desc":"undefined","ranks":"[0]"}},)"
      R"("entries":[)" +
      entry(2, "nccl:all_reduce").replace(entry(2, "nccl:all_reduce").find("\"0\""), 3, "\"3\"") + "]}";
  const auto groups = read_recording(config, lines, Recorder::nccl);
  REQUIRE(groups);
  REQUIRE(groups.value().size() == 2);
  CHECK(groups.value()[0].line.ranks.empty());  // the world keeps its own line
  const RecordedGroup& split = groups.value()[1];
  CHECK(split.line.description == "mesh_tp");
  CHECK((split.line.rank == 0 && split.line.size == 2));
  CHECK(split.called == 2);
  const auto of_gloo = read_recording(config, lines, Recorder::gloo);
  REQUIRE(of_gloo);
  CHECK(of_gloo.value().size() == 1);
  for (const char* ranks : {R"("[0,")", R"("x")", "7", R"(["a"])"}) {
    const std::string bad = R"({"pg_config":{"3":{"name":"3","desc":"","ranks":)" + std::string(ranks) + "}}}";
    CHECK_FALSE(read_recording(bad, lines, Recorder::nccl));
  }
}

TEST_CASE("the status of groups is parsed as text and as numbers") {
  const auto statuses = read_statuses(
      R"({"pg_status":{"0":{"last_enqueued_collective":"5","last_started_collective":"-1",)"
      R"("last_completed_collective":"4"},"12":{"last_enqueued_collective":7,"last_completed_collective":7}}})");
  REQUIRE(statuses);
  CHECK(statuses.value() == Statuses{{"0", {5, 4}}, {"12", {7, 7}}});
  CHECK_FALSE(statuses.value().at("0").is_idle());
  CHECK(statuses.value().at("12").is_idle());
  CHECK(read_statuses(R"({"pg_status":{}})").value().empty());
  CHECK(read_statuses(R"({"pg_status":{"0":{"last_enqueued_collective":"no number"}}})").value().at("0").enqueued ==
        -1);
  for (const char* text :
       {"", "[]", "{}", R"({"pg_status":7})", R"({"pg_status":{"0":{"last_enqueued_collective":{}}}})"}) {
    CHECK_FALSE(read_statuses(text));
  }
}

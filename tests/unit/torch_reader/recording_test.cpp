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
  auto groups = read_recording(recording(entries), read_lines("{\"pid\":7}\n" + lines));
  REQUIRE(groups);
  return groups.value();
}

std::uint64_t fingerprint(const std::string& one) {
  return read(one).at(0).calls.at(0).fingerprint;
}

}  // namespace

TEST_CASE("the lines of a worker's Python are read, and what is no such line is passed over") {
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

TEST_CASE("a recording says what was called and how much of it is finished") {
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

TEST_CASE("what came before the group, between two ranks, or of no known group is left out") {
  std::string transfer = entry(6, "gloo:send");
  transfer.replace(transfer.find("\"is_p2p\":false"), 14, "\"is_p2p\":true");
  std::string other = entry(7, "gloo:all_reduce");
  other.replace(other.find("\"0\""), 3, "\"9\"");
  std::string former = entry(80, "gloo:all_reduce");
  former.replace(former.find("1080"), 4, "0999");
  CHECK_FALSE(read_recording(recording(former), read_lines(kWorld)));  // no JSON number begins with 0
  former.replace(former.find("0999"), 4, "999");
  const auto groups = read(transfer + "," + other + "," + former + "," + entry(1, "gloo:all_reduce"));
  CHECK(groups.at(0).called == 1);
  CHECK(groups.at(0).calls.size() == 1);
}

TEST_CASE("all calls are kept, in their order") {
  std::string entries;
  for (int i = 40; i > 0; --i) entries += entry(i, "gloo:all_reduce") + (i > 1 ? "," : "");
  const auto groups = read(entries);
  REQUIRE(groups.at(0).calls.size() == 40);
  CHECK(groups[0].calls.front().sequence == 1);
  CHECK(groups[0].calls.back().sequence == 40);
}

TEST_CASE("the size of a call is known, and when PyTorch noticed its end") {
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

TEST_CASE("fingerprints differ only where ranks may not") {
  const auto with = [](const std::string& name, const std::string& types, const std::string& sizes) {
    return fingerprint(entry(1, name, R"(,"input_dtypes":)" + types + R"(,"input_sizes":)" + sizes));
  };
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") == with("gloo:all_reduce", R"(["Float"])", "[[2,2]]"));
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") != with("gloo:all_reduce", R"(["Float"])", "[[5]]"));
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") != with("gloo:all_reduce", R"(["Double"])", "[[4]]"));
  CHECK(with("gloo:all_reduce", R"(["Float"])", "[[4]]") != with("gloo:broadcast", R"(["Float"])", "[[4]]"));
  CHECK(with("gloo:gather", R"(["Float"])", "[[4]]") == with("gloo:gather", R"(["Double"])", "[[9]]"));
  CHECK(with("gloo:scatter", "[]", "[]") == with("gloo:scatter", R"(["Float"])", "[[4]]"));
  CHECK(with("nccl:all_reduce", R"(["Float"])", "[[4]]") == with("nccl:broadcast", R"(["Float"])", "[[5]]"));
}

TEST_CASE("a group made again, or of other ranks, is another group") {
  const auto identity = [](const std::string& lines) { return read("", lines).at(0).identity; };
  const std::string pair = R"({"name":"1","description":"","rank":0,"size":2,"ranks":[0,1],"made_at":1})"
                           "\n";
  const std::string others = R"({"name":"1","description":"","rank":0,"size":2,"ranks":[2,3],"made_at":1})"
                             "\n";
  CHECK(identity(pair) == identity(pair));
  CHECK(identity(pair) != identity(others));
  CHECK(identity(pair) != identity(pair + pair));
  CHECK(identity(pair) != 0);
}

TEST_CASE("what is no recording is a failure") {
  const WorkerLines lines = read_lines(kWorld);
  for (const char* text : {"", "[", "7", "[]", R"({"entries":7})", R"({"entries":[7]})", R"({"entries":[{}]})",
                           R"({"entries":[{"process_group":[]}]})"}) {
    const auto groups = read_recording(text, lines);
    CHECK((!groups || groups.value().at(0).called == 0));
  }
  const auto nothing = read_recording("{}", lines);
  REQUIRE(nothing);
  CHECK(nothing.value().at(0).called == 0);
  CHECK(nothing.value().at(0).finished == 0);
}

#include "launcher/see/top/view_protocol.h"

#include "launcher/see/view/job_snapshot.h"
#include "support/catch.h"
#include "support/made_snapshot.h"

using namespace ddp::launcher;

namespace {

std::string_view without_end(std::string_view line) {
  REQUIRE(line.ends_with('\n'));
  REQUIRE(line.find('\n') == line.size() - 1);
  return line.substr(0, line.size() - 1);
}

}  // namespace

TEST_CASE("requests are unchanged after encoding and decoding") {
  for (const ViewRequest& request : {ViewRequest{ViewWish::snapshot, 0},
                                     {ViewWish::stacks, 3},
                                     {ViewWish::output, 4095},
                                     {ViewWish::no_output, 0}}) {
    const auto read = read_request(without_end(request_line(request)));
    REQUIRE(read);
    CHECK(read.value() == request);
  }
  CHECK(read_request(R"( { "rank" : 7, "want" : "stacks", "more": [] } )").value() == ViewRequest{ViewWish::stacks, 7});
}

TEST_CASE("answers are unchanged after encoding and decoding") {
  const JobSnapshot job = ddp::test::training_job(4);
  auto read = read_answer(without_end(snapshot_line(json_of(job))));
  REQUIRE(read);
  CHECK(read.value().kind == ViewAnswer::Kind::snapshot);
  CHECK(read.value().snapshot == job);
  // Another program may write spaces.
  read = read_answer("{ \"snapshot\" : " + json_of(job) + " }");
  REQUIRE(read);
  CHECK(read.value().snapshot == job);

  const std::vector<std::string> lines = {"a\"b", "", "\x1b[31m", "节"};
  read = read_answer(without_end(stacks_line(3, lines)));
  REQUIRE(read);
  CHECK(read.value().kind == ViewAnswer::Kind::stacks);
  CHECK(read.value().rank == 3);
  CHECK(read.value().lines == lines);
  read = read_answer(without_end(output_line(0, lines)));
  REQUIRE(read);
  CHECK(read.value().kind == ViewAnswer::Kind::output);
  read = read_answer(without_end(error_line("no such rank")));
  REQUIRE(read);
  CHECK(read.value().kind == ViewAnswer::Kind::error);
  CHECK(read.value().lines == std::vector<std::string>{"no such rank"});
  CHECK(without_end(output_line(1, std::vector<std::string>{"\xff\n"})).size() > 0);
}

TEST_CASE("the view protocol refuses invalid requests and answers, and drops lines that are not text") {
  for (const char* line : {"", "x", "[]", "{}", "null", "{\"want\":7}", "{\"want\":\"all\"}", "{\"want\":\"stacks\"}",
                           "{\"want\":\"stacks\",\"rank\":-1}", "{\"want\":\"stacks\",\"rank\":1e99}",
                           "{\"want\":\"output\",\"rank\":99999999999}", "\xff\xfe", "{\"want\":"}) {
    CAPTURE(line);
    CHECK_FALSE(read_request(line));
  }
  for (const char* line :
       {"", "x", "[]", "{}", "null", "{\"snapshot\":}", "{\"snapshot\":{}}", "{\"snapshot\":[]}", "{\"stacks\":[]}",
        "{\"stacks\":{\"rank\":-3}}", "{\"error\":{}}", "{\"other\":1}", "{\"error\":\"a\",\"b\":1}", "\xff\xfe"}) {
    CAPTURE(line);
    CHECK_FALSE(read_answer(line));
  }
  const std::size_t levels = 1'000'000;
  CHECK_FALSE(read_answer("{ \"snapshot\":" + std::string(levels, '[') + std::string(levels, ']') + "}"));
  const auto read = read_answer(R"({"output":{"rank":1,"lines":[1,"a",null]}})");
  REQUIRE(read);
  CHECK(read.value().lines == std::vector<std::string>{"a"});
  CHECK(read_answer(R"({"stacks":{"rank":1,"lines":7}})").value().lines.empty());
}

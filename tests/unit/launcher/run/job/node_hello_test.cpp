#include "launcher/run/job/node_hello.h"

#include <variant>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using ddp::wire::NodeHello;

namespace {

LaunchPlan plan_with(const std::string& text) {
  LaunchPlan plan;
  plan.run_id = "job" + text;
  plan.host_name = "host" + text;
  plan.what = "dir/train" + text + ".py";
  plan.program = "/usr/bin/python3";
  plan.arguments = {"python3", plan.what, text};
  plan.inherited_environment = {"NCCL_X" + text + "=" + text};
  plan.nodes.min = plan.nodes.max = 2;
  return plan;
}

// Returns the node's report as the coordinator receives it.
NodeHello received(const NodeHello& hello) {
  const auto message = ddp::wire::decode_control(ddp::wire::encode(hello));
  REQUIRE(message);
  return std::get<NodeHello>(*message);
}

}  // namespace

TEST_CASE("nodes with equal command lines and environments match, whatever bytes these contain") {
  std::string all_bytes;
  for (int byte = 1; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  // The limit of a compared text is inside a character for some of these.
  const std::string umlauts = [] {
    std::string text;
    while (text.size() < 3000) text += "\xc3\xa4";
    return text;
  }();
  for (const std::string& text :
       {std::string(""), std::string("x"), std::string("\xff"), std::string("caf\xe9 \xed\xa0\x80"),
        std::string("a\nb\x1b[31m"), all_bytes, umlauts, "y" + umlauts}) {
    CAPTURE(text.size());
    const NodeHello own = make_node_hello(plan_with(text));
    const NodeHello theirs = received(make_node_hello(plan_with(text)));
    CHECK(difference_of_kind(theirs, own, false, 2).empty());
    for (const Remark& remark : remarks_on(theirs, own, std::chrono::nanoseconds(own.monotonic))) FAIL(remark.line);
  }
}

TEST_CASE("nodes whose arguments differ in a byte that is not UTF-8 do not match") {
  const NodeHello own = make_node_hello(plan_with("\xe9"));
  const NodeHello theirs = received(make_node_hello(plan_with("\xe8")));
  CHECK_THAT(difference_of_kind(theirs, own, false, 2), Catch::Contains("it belongs to job 'job\\xe8'"));
  const auto remarks = remarks_on(theirs, own, std::chrono::nanoseconds(own.monotonic));
  REQUIRE_FALSE(remarks.empty());
  CHECK_THAT(remarks.back().line, Catch::Contains("'python3 dir/train\\xe8.py \\xe8' on host\\xe8"));
}

TEST_CASE("nodes with different witnesses, or with one and without, do not match") {
  const TemporaryDirectory one;
  const TemporaryDirectory another;
  const auto hello_with = [](const std::string& witness) {
    LaunchPlan plan = plan_with("");
    plan.nodes.witness = witness;
    return received(make_node_hello(plan));
  };
  const NodeHello own = hello_with(one.path());
  CHECK(difference_of_kind(hello_with(one.path() + "/"), own, false, 2).empty());
  for (const std::string& witness : {another.path(), std::string(), one.path() + "/none"}) {
    CHECK(difference_of_kind(hello_with(witness), own, false, 2).starts_with("its --witness is not the directory"));
  }
  CHECK(difference_of_kind(own, hello_with(""), false, 2).starts_with("its --witness is not the directory"));
}

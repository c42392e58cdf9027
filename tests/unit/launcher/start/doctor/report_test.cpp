#include "launcher/start/doctor/report.h"

#include "support/catch.h"

using namespace ddp::launcher::doctor;

namespace {

const Findings kFindings = {{"files", Grade::ok, "1024 files may be open", ""},
                            {"nccl", Grade::unknown, "not found", ""},
                            {"memory", Grade::warn, "little", "buy \x1bmore"},
                            {"shared-memory", Grade::fail, "64 MiB", "--shm-size=8g"}};

NodeResult alone() {
  return {0, 1, {.findings = {{0, "node-7", 2, 0, kFindings, {}}}}};
}

// Two nodes of which nothing is known but what they have found on themselves.
NodeResult two_nodes() {
  NodeResult result = alone();
  result.expected = 2;
  result.job.findings.front().facts = {{"kernel", "6.1", false}};
  result.job.findings.push_back({1, "node-8", 2, 0, {kFindings[0], kFindings[2]}, {{"kernel", "6.2", false}}});
  return result;
}

}  // namespace

TEST_CASE("the report has a line for each finding, the remedies and a summary") {
  CHECK(report_text(alone()) ==
        "node-7: 2 workers, 0 GPUs\n"
        "  ok       files          1024 files may be open\n"
        "  unknown  nccl           not found\n"
        "  warn     memory         little\n"
        "                          try: buy \\x1bmore\n"
        "  FAIL     shared-memory  64 MiB\n"
        "                          try: --shm-size=8g\n"
        "1 FAIL, 1 warn, 1 unknown, 1 ok\n");
}

TEST_CASE("the report of several nodes shows each trouble once, and how they differ") {
  CHECK(report_text(two_nodes()) ==
        "node 0, node-7: 2 workers, 0 GPUs: 1 FAIL, 1 warn, 1 unknown, 1 ok\n"
        "node 1, node-8: 2 workers, 0 GPUs: 1 warn, 1 ok\n"
        "  FAIL     shared-memory  node 0: 64 MiB\n"
        "                          try: --shm-size=8g\n"
        "  warn     memory         nodes 0, 1: little\n"
        "                          try: buy \\x1bmore\n"
        "  unknown  nccl           node 0: not found\n"
        "between the 2 nodes\n"
        "  FAIL     answers        node 0, node 1 have not answered in time\n"
        "                          try: run ddplaunch doctor --node there. A driver or a file system may hang\n"
        "differences\n"
        "           kernel         6.1 on node 0; 6.2 on node 1\n"
        "2 FAIL, 2 warn, 1 unknown, 2 ok\n");
}

TEST_CASE("the report as JSON has the same findings and the exit code") {
  const auto json = ddp::wire::Json::parse(report_json(two_nodes(), 2));
  CHECK(json.at("exit_code") == 2);
  CHECK(json.at("nodes").size() == 2);
  const auto& node = json.at("nodes").at(0);
  CHECK(node.at("host") == "node-7");
  CHECK(node.at("findings").size() == 4);
  CHECK(node.at("findings").at(3) == ddp::wire::Json{{"check", "shared-memory"},
                                                     {"grade", "fail"},
                                                     {"text", "64 MiB"},
                                                     {"remedy", "--shm-size=8g"},
                                                     {"fallback", ""}});
  CHECK(json.at("between").at(0).at("check") == "answers");
  CHECK(json.at("differences").at(0).at("values").at(1) == ddp::wire::Json{{"value", "6.2"}, {"nodes", {1}}});
  CHECK(json.at("to_leave_out") == std::vector{0, 1});
}

TEST_CASE("the exit code is 2 for a failure, and 1 for a warning only if it is wanted") {
  CHECK(exit_code_of(kFindings, false) == 2);
  const Findings but_last(kFindings.begin(), kFindings.end() - 1);
  CHECK(exit_code_of(but_last, false) == 0);
  CHECK(exit_code_of(but_last, true) == 1);
  CHECK(exit_code_of({kFindings[0], kFindings[1]}, true) == 0);
}

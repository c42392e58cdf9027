#include "launcher/start/doctor/report.h"

#include "support/catch.h"

using namespace ddp::launcher::doctor;

namespace {

const Findings kFindings = {{"files", Grade::ok, "1024 files may be open", ""},
                            {"nccl", Grade::unknown, "not found", ""},
                            {"memory", Grade::warn, "little", "buy \x1bmore"},
                            {"shared-memory", Grade::fail, "64 MiB", "--shm-size=8g"}};

Node node_7() {
  Node node;
  node.host_name = "node-7";
  node.workers = 2;
  return node;
}

}  // namespace

TEST_CASE("the report has a line for each finding, the remedies and a summary") {
  CHECK(report_text(node_7(), kFindings) ==
        "node-7: 2 workers, 0 GPUs\n"
        "  ok       files          1024 files may be open\n"
        "  unknown  nccl           not found\n"
        "  warn     memory         little\n"
        "                          try: buy \\x1bmore\n"
        "  FAIL     shared-memory  64 MiB\n"
        "                          try: --shm-size=8g\n"
        "1 FAIL, 1 warn, 1 unknown, 1 ok\n");
}

TEST_CASE("the report as JSON has the same findings and the exit code") {
  const auto json = ddp::wire::Json::parse(report_json(node_7(), kFindings, 2));
  CHECK(json.at("node") == "node-7");
  CHECK(json.at("exit_code") == 2);
  CHECK(json.at("findings").size() == 4);
  CHECK(
      json.at("findings").at(3) ==
      ddp::wire::Json{{"check", "shared-memory"}, {"grade", "fail"}, {"text", "64 MiB"}, {"remedy", "--shm-size=8g"}});
}

TEST_CASE("the exit code is 2 for a failure, and 1 for a warning only if it is wanted") {
  CHECK(exit_code_of(kFindings, false) == 2);
  const auto but_last = std::span(kFindings).first(3);
  CHECK(exit_code_of(but_last, false) == 0);
  CHECK(exit_code_of(but_last, true) == 1);
  CHECK(exit_code_of(std::span(kFindings).first(2), true) == 0);
}

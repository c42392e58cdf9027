#include "launcher/see/top/ls_command.h"

#include <nlohmann/json.hpp>

#include "base/exit_code.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

std::vector<RunningJob> jobs() {
  RunningJob running;
  running.pid = 10;
  running.has_answered = true;
  running.run_id = "night-run";
  running.program = "train.py --epochs 3";
  running.ranks = 8;
  running.nodes = 2;
  running.uptime = 60.5;
  RunningJob silent;
  silent.pid = 20;
  return {running, silent};
}

std::string printed;

int print(const std::string& text) {
  printed = text;
  return 0;
}

}  // namespace

TEST_CASE("ddplaunch ls prints a line per job, or says that there is none") {
  CHECK(list_text({}) == "No job of this user is running on this node.\n");
  CHECK(list_text(jobs()) ==
        "PID  RUN ID     RANKS  NODES  AGE    STATE            PROGRAM\n"
        "10   night-run  8      2      1m01s  running          train.py --epochs 3\n"
        "20   -          -      -      -      does not answer  -\n");
}

TEST_CASE("ddplaunch ls --json prints all jobs on one line") {
  CHECK(list_json({}) == "{\"schema\":1,\"jobs\":[]}\n");
  const std::string text = list_json(jobs());
  CHECK(text.find('\n') == text.size() - 1);
  const auto expected = nlohmann::json::parse(R"({"schema": 1, "jobs": [
      {"pid": 10, "state": "running", "reason": "", "run_id": "night-run", "program": "train.py --epochs 3",
       "world_size": 8, "node_count": 2, "uptime_seconds": 60.5},
      {"pid": 20, "state": "unknown", "reason": "does not answer", "run_id": null, "program": null,
       "world_size": null, "node_count": null, "uptime_seconds": null}]})");
  CHECK(nlohmann::json::parse(text) == expected);
}

TEST_CASE("ddplaunch ls without a running job is not an error") {
  const TemporaryDirectory directory;
  Log log({});
  CHECK(run_ls_command({}, {"DDP_SOCKET_DIR=" + directory.path()}, log, print) == 0);
  CHECK(printed == list_text({}));
  LsOptions json;
  json.json = true;
  CHECK(run_ls_command(json, {"DDP_SOCKET_DIR=" + directory.path()}, log, print) == 0);
  CHECK(printed == list_json({}));
  CHECK(run_ls_command({}, {"DDP_SOCKET_DIR=/nonexistent"}, log, print) == ddp::base::kExitOwnFault);
}

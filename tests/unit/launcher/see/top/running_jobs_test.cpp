#include "launcher/see/top/running_jobs.h"

#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "base/exit_code.h"
#include "launcher/see/top/view_server.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/loop_thread.h"
#include "support/made_snapshot.h"
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

RunningJob job(pid_t pid, const std::string& run_id, int launcher_pid = 0) {
  RunningJob job;
  job.path = "/run/ddplaunch-" + std::to_string(pid) + ".sock";
  job.pid = pid;
  job.has_answered = true;
  job.launcher_pid = launcher_pid;
  job.run_id = run_id;
  job.program = "train.py";
  job.ranks = 8;
  job.nodes = 2;
  job.uptime = 60;
  return job;
}

RunningJob silent_job(pid_t pid, const std::string& refusal) {
  RunningJob job;
  job.pid = pid;
  job.refusal = refusal;
  return job;
}

std::string failure(const std::vector<RunningJob>& jobs, const std::string& wanted) {
  const auto chosen = choose_job(jobs, wanted);
  REQUIRE_FALSE(chosen);
  return chosen.error().message;
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

TEST_CASE("the only job is chosen, or the one with the given pid or run id") {
  const std::vector<RunningJob> jobs = {job(10, "a", 11), job(20, "b"), job(30, "77")};
  CHECK(choose_job({jobs[0]}, "").value().pid == 10);
  CHECK(choose_job(jobs, "10").value().pid == 10);
  CHECK(choose_job(jobs, "11").value().pid == 10);
  CHECK(choose_job(jobs, "b").value().pid == 20);
  CHECK(choose_job(jobs, "77").value().pid == 30);
}

TEST_CASE("error messages list the running jobs and say what to do") {
  std::vector<RunningJob> jobs = {job(10, "a"), job(20, "b\x1b[2J")};
  jobs.push_back(silent_job(30, ""));
  jobs.push_back(silent_job(40, "no place\x1b"));
  CHECK_THAT(failure({}, ""), Catch::Contains("no job of this user is running on this node"));
  CHECK_THAT(failure({}, "a"), Catch::Contains("no job of this user is running on this node"));
  CHECK(failure(jobs, "") ==
        "several jobs are running. Name one of them: ddplaunch top PID\n"
        "  PID  RUN ID    RANKS  NODES  AGE    STATE            PROGRAM\n"
        "  10   a         8      2      1m00s  running          train.py\n"
        "  20   b\\x1b[2J  8      2      1m00s  running          train.py\n"
        "  30   -         -      -      -      does not answer  -\n"
        "  40   -         -      -      -      no place\\x1b     -");
  CHECK_THAT(failure(jobs, "c"), Catch::StartsWith("no running job is named 'c'. These are running:\n  PID"));
  CHECK_THAT(failure({job(10, "a"), job(20, "a"), job(30, "b")}, "a"),
             Catch::StartsWith("several jobs are named 'a'") && !Catch::Contains("30"));
  const std::vector<RunningJob> many(50, job(10, "a"));
  CHECK_THAT(failure(many, ""), Catch::EndsWith("... and 30 more"));
}

TEST_CASE("a job is running or stalled, or its state is unknown with a reason") {
  RunningJob stalled = job(10, "a");
  stalled.is_stalled = true;
  CHECK(state_of(job(10, "a")) == "running");
  CHECK(state_of(stalled) == "stalled");
  RunningJob waiting = job(10, "a");
  waiting.ranks = waiting.nodes = 0;
  CHECK(state_of(waiting) == "starting");
  CHECK(why_unknown(stalled).empty());
  CHECK(state_of(silent_job(10, "")) == "unknown");
  CHECK(why_unknown(silent_job(10, "")) == "does not answer");
  CHECK(why_unknown(silent_job(10, "no place\n")) == "no place\\x0a");
}

TEST_CASE("the table of jobs has aligned columns, also with wide characters") {
  const std::vector<RunningJob> jobs = {job(10, "训练"), job(2000, "b")};
  CHECK(job_table(jobs) == std::vector<std::string>{"PID   RUN ID  RANKS  NODES  AGE    STATE    PROGRAM",
                                                    "10    训练    8      2      1m00s  running  train.py",
                                                    "2000  b       8      2      1m00s  running  train.py"});
  CHECK(job_table({}).size() == 1);
}

TEST_CASE("jobs that answer are found, and sockets of exited launchers are ignored") {
  const TemporaryDirectory directory;
  const std::vector<std::string> environment = {"DDP_SOCKET_DIR=" + directory.path()};
  CHECK(find_jobs(environment).value().empty());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (directory.path() + "/ddplaunch-5.sock").c_str());
  const ddp::base::UniqueFd left(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);

  ddp::test::LoopThread loop;
  JobSnapshot snapshot = ddp::test::training_job(16);
  snapshot.nodes.push_back({"spare", 0, 0});
  std::unique_ptr<ViewServer> server;
  loop.run([&] {
    server = std::make_unique<ViewServer>(
        loop.loop(), listen_in({directory.path()}, 7).value(),
        ViewServer::Job{[&] { return snapshot; }, [](int, const ViewServer::Reply&) {},
                        [](int, const ViewServer::Sink&) { return std::unique_ptr<ddp::net::Watch>(); }});
  });
  const auto running = find_jobs(environment).value();
  loop.run([&] { snapshot.stall = "ranks wait for rank 1"; });
  // The launcher shows the same snapshot again for a moment.
  std::vector<RunningJob> stalled;
  CHECK(ddp::test::eventually([&] {
    stalled = find_jobs(environment).value();
    return stalled.size() == 1 && state_of(stalled[0]) == "stalled";
  }));
  loop.run([&] { server.reset(); });
  REQUIRE(running.size() == 1);
  CHECK(running[0].pid == 7);
  CHECK(running[0].run_id == "night-run");
  CHECK(running[0].ranks == 16);
  CHECK(running[0].nodes == 2);
  CHECK(state_of(running[0]) == "running");
  CHECK(find_jobs(environment).value().empty());
}

TEST_CASE("a socket directory that cannot be used is an error") {
  const std::vector<std::string> environment = {"DDP_SOCKET_DIR=/nonexistent"};
  const auto jobs = find_jobs(environment);
  REQUIRE_FALSE(jobs);
  CHECK_THAT(jobs.error().message, Catch::StartsWith("DDP_SOCKET_DIR: cannot use /nonexistent"));
}

#include "launcher/top/top_command.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Environment = std::vector<std::string>;

namespace {

RunningJob job(pid_t pid, const std::string& run_id, int launcher_pid = 0) {
  return {
      "/run/ddplaunch-" + std::to_string(pid) + ".sock", pid, true, launcher_pid, run_id, "train.py", 8, 60, {}, ""};
}

std::string failure(const std::vector<RunningJob>& jobs, const std::string& wanted) {
  const auto chosen = choose_job(jobs, wanted);
  REQUIRE_FALSE(chosen);
  return chosen.error().message;
}

}  // namespace

TEST_CASE("the look follows the terminal, the locale and NO_COLOR") {
  const Environment usual = {"TERM=xterm-256color", "LANG=en_US.UTF-8"};
  CHECK(look_of_terminal({}, usual, true) == FrameLook{true, true});
  CHECK(look_of_terminal({}, usual, false) == FrameLook{false, true});
  CHECK(look_of_terminal({}, {"LANG=en_US.utf8", "NO_COLOR=1"}, true) == FrameLook{false, true});
  CHECK(look_of_terminal({}, {"LANG=en_US.UTF-8", "LC_ALL=C"}, true) == FrameLook{true, false});
  CHECK(look_of_terminal({}, {"LC_ALL=", "LC_CTYPE=C.UTF-8", "LANG=C"}, true) == FrameLook{true, true});
  CHECK(look_of_terminal({}, {}, true) == FrameLook{true, false});
  CHECK(look_of_terminal({}, {"TERM=dumb"}, true) == FrameLook{false, false});
  TopOptions options;
  options.no_color = true;
  CHECK(look_of_terminal(options, usual, true) == FrameLook{false, true});
}

TEST_CASE("the only job is chosen, or the one with this pid or run id") {
  const std::vector<RunningJob> jobs = {job(10, "a", 11), job(20, "b"), job(30, "77")};
  CHECK(choose_job({jobs[0]}, "").value().pid == 10);
  CHECK(choose_job(jobs, "10").value().pid == 10);
  CHECK(choose_job(jobs, "11").value().pid == 10);
  CHECK(choose_job(jobs, "b").value().pid == 20);
  CHECK(choose_job(jobs, "77").value().pid == 30);
}

TEST_CASE("messages list the jobs and say what to do") {
  std::vector<RunningJob> jobs = {job(10, "a"), job(20, "b\x1b[2J")};
  jobs.push_back({"/x", 30, false, 0, "", "", 0, 0, {}, ""});
  jobs.push_back({"/y", 40, false, 0, "", "", 0, 0, {}, "no place\x1b"});
  CHECK_THAT(failure({}, ""), Catch::Contains("no job of this user is running on this node"));
  CHECK_THAT(failure({}, "a"), Catch::Contains("no job of this user is running on this node"));
  CHECK_THAT(failure(jobs, ""), Catch::StartsWith("several jobs are running. Name one of them: ddplaunch top PID\n") &&
                                    Catch::Contains("\n  10  a  8 ranks, up 1m00s  train.py\n") &&
                                    Catch::Contains("b\\x1b[2J") && Catch::Contains("30  (does not answer)\n") &&
                                    Catch::EndsWith("40  (no place\\x1b)"));
  CHECK_THAT(failure(jobs, "c"), Catch::StartsWith("no running job is named 'c'. These are running:\n  10  a"));
  CHECK_THAT(failure({job(10, "a"), job(20, "a"), job(30, "b")}, "a"),
             Catch::StartsWith("several jobs are named 'a'") && !Catch::Contains("30"));
  const std::vector<RunningJob> many(50, job(10, "a"));
  CHECK_THAT(failure(many, ""), Catch::EndsWith("... and 30 more"));
}

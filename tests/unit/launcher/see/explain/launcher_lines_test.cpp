#include "launcher/see/explain/launcher_lines.h"

#include <string>

#include "base/text.h"
#include "support/catch.h"

namespace ddp::launcher {
namespace {

LauncherLines read(const std::string& text) {
  LauncherLines lines;
  std::uint64_t number = 0;
  for (const std::string& line : base::split(text, '\n')) lines.add(line, {"x.log", ++number});
  return lines;
}

TEST_CASE("torchrun's messages name the rank that failed first") {
  const auto lines = read(
      "failed (exitcode: -9) local_rank: 1 (pid: 4711) of binary: /usr/bin/python3\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
      "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-04_12:00:00\n  host      : node1\n"
      "  rank      : 9 (local_rank: 1)\n  exitcode  : -9 (pid: 4711)");
  REQUIRE(lines.ends().size() == 2);
  CHECK(lines.ends()[0].local_rank == 1);
  CHECK(lines.ends()[0].text == "killed by SIGKILL");
  CHECK(lines.ends()[1].rank == 9);
  CHECK(lines.ends()[1].text == "killed by SIGKILL");
  CHECK(lines.has_failed());
}

TEST_CASE("messages of srun, mpirun and ddplaunch name the rank that failed") {
  const auto first = [](const std::string& text) {
    const auto lines = read(text);
    REQUIRE_FALSE(lines.ends().empty());
    CHECK(lines.has_failed());
    return lines.ends().front();
  };
  CHECK(first("srun: error: node1: task 3: Exited with exit code 1").rank == 3);
  CHECK(first("srun: error: node1: task 3: Exited with exit code 1").text == "exit code 1");
  CHECK(first("srun: error: node1: task 3: Out Of Memory").text == "Out Of Memory");
  CHECK(first("mpirun noticed that process rank 2 with PID 0 on node n exited on signal 9 (Killed).").rank == 2);
  CHECK(first("mpirun detected that one or more processes exited with non-zero status:\n\n  Process name: [[1,1],5]\n"
              "  Exit code:    7")
            .rank == 5);
  CHECK(first("mpirun detected that one or more processes exited with non-zero status:\n\n  Process name: [[1,1],5]\n"
              "  Exit code:    7")
            .text == "exit code 7");
  const auto own = first("ddplaunch: error: rank 2 (pid 4712) failed: killed by SIGSEGV, 3 s after the start");
  CHECK(own.rank == 2);
  CHECK(own.text == "killed by SIGSEGV, 3 s after the start");
  CHECK_FALSE(own.is_hang);
  CHECK(first("ddplaunch: error: rank 1 has not called all_reduce  [DDP-H03 not called]").is_hang);
}

TEST_CASE("torchrun's failure table is parsed with other spacing and with its times") {
  const auto lines = read(
      "Root Cause (first observed failure):\ntime : 2026-11-04_12:00:00\nrank : 4 (local_rank: 0)\nexitcode : 1 (pid: "
      "3)");
  REQUIRE(lines.ends().size() == 1);
  CHECK(lines.ends()[0].rank == 4);
  CHECK(lines.ends()[0].text == "exit code 1");
  CHECK(lines.ends()[0].time.has_value());
}

TEST_CASE("the error or last line that ddplaunch quotes is attributed to its rank") {
  const auto end = [](const std::string& text) {
    return read("ddplaunch: error: rank 1 (pid 2) failed: exit code 1\n" + text).ends().at(0);
  };
  const auto error = end("ddplaunch:   its error:\nddplaunch:   | ValueError: x\nddplaunch:   | more");
  CHECK(error.quoted == "ValueError: x");
  CHECK(error.is_error_quoted);
  const auto lines = end("ddplaunch:   its last lines:\nddplaunch:   | step 1\nddplaunch:   | bad file");
  CHECK(lines.quoted == "bad file");
  CHECK_FALSE(lines.is_error_quoted);
}

TEST_CASE("a restart is recognised from its message or from a second torchrun failure") {
  CHECK(read("ddplaunch:   restart 1 of 1 in 0.2 s").take_restart() == 1);
  CHECK(read("Worker group FAILED; will restart worker group").take_restart() == 1);
  auto lines = read("failed (exitcode: 1) local_rank: 1 (pid: 3)\nx\nfailed (exitcode: 1) local_rank: 3 (pid: 5)");
  CHECK(lines.take_restart() == 1);
  CHECK(lines.take_restart() == 0);
  CHECK(read("failed (exitcode: 1) local_rank: 1\nfailed (exitcode: -15) local_rank: 3").take_restart() == 0);
}

TEST_CASE("launcher messages without information about a rank are ignored") {
  CHECK(read("srun: error: Unable to create step\nsrun: error: node1: tasks 0-2: Killed\nddplaunch: error: x")
            .ends()
            .empty());
  CHECK(read("rank      : 9 (local_rank: 1)").ends().empty());
  auto lines = read("srun: error: x");
  lines.forget(1);
  CHECK_FALSE(lines.has_failed());
  CHECK_FALSE(read("failed (exitcode: 1) local_rank: 0").has_failed());
}

}  // namespace
}  // namespace ddp::launcher

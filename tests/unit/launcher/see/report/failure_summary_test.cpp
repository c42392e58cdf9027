#include "launcher/see/report/failure_summary.h"

#include <csignal>

#include "base/text.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using ddp::base::ExitStatus;

namespace {

LaunchPlan plan_of(int workers) {
  LaunchPlan plan;
  plan.host_name = "a";
  plan.program = "./train";
  plan.workers = workers;
  plan.grace = 5s;
  plan.exit_timeout = 5min;
  for (int i = 0; i < workers; ++i) plan.devices.emplace_back(std::to_string(i));
  return plan;
}

WorkerEnd& culprit_of(JobOutcome& outcome) {
  return std::get<WorkerFailed>(outcome.cause).end;
}

std::string summary(const JobOutcome& outcome) {
  return ddp::base::join(failure_summary(outcome, plan_of(4), {}), "\n");
}

WorkerEnd end_of(int rank, ExitStatus status) {
  WorkerEnd end;
  end.local_rank = end.rank = rank;
  end.pid = 4711;
  end.status = status;
  return end;
}

}  // namespace

TEST_CASE("a crash is reported with rank, pid, signal and the reaction of the launcher") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(2, ExitStatus::killed(SIGSEGV, true)), {}};
  outcome.ended_ranks = {0, 1, 3};
  outcome.asked_with = {SIGTERM};
  outcome.run_time = 192s;
  outcome.ending_time = 200ms;
  CHECK(summary(outcome) ==
        "rank 2 (pid 4711) failed: killed by SIGSEGV (core dumped), 3 min 12 s after the start\n"
        "  node a, GPU 2, program ./train\n"
        "  ranks 0, 1, 3 were terminated because of it (SIGTERM, gone in 0.2 s)");
}

TEST_CASE("a report on a worker that may lack shared memory gives its size") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::killed(SIGBUS, false)), {}};
  FailureEvidence evidence;
  evidence.shared_memory = SharedMemory{64 << 20, 1 << 20};
  const std::string text = ddp::base::join(failure_summary(outcome, plan_of(4), evidence), "\n");
  CHECK(text.find("\n  /dev/shm of a has 64 MiB, of which 1 MiB are free now. ") != std::string::npos);
}

TEST_CASE("a worker's own message is quoted without control characters and shortened") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  culprit_of(outcome).error = ErrorRecord{"ValueError: \x1b[31mbad\nline 2\n" + std::string(5000, '\n'), false};
  CHECK(summary(outcome) ==
        "rank 0 (pid 4711) failed: exit code 1, 0 ms after the start\n  node a, GPU 0, program ./train\n"
        "  its error:\n  | ValueError: \\x1b[31mbad\n  | line 2");
  culprit_of(outcome).error = ErrorRecord{std::string(100'000, 'x'), false};
  CHECK(summary(outcome).size() < 2500);
  std::string loader = "OSError: Caught OSError in DataLoader worker process 0.\nOriginal Traceback:\n";
  for (int i = 0; i < 40; ++i) loader += "  frame\n";
  culprit_of(outcome).error = ErrorRecord{loader + "OSError: cannot read sample 3\n", false};
  CHECK_THAT(summary(outcome), Catch::Contains("  | OSError: Caught OSError in DataLoader worker process 0.\n"));
  CHECK_THAT(summary(outcome), Catch::EndsWith("  |   frame\n  | OSError: cannot read sample 3"));
  CHECK_THAT(summary(outcome), Catch::Contains("\n  | …\n"));
}

TEST_CASE("a quoted error has one limit for all lines, and short lines of the program are kept") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  std::string message = "RuntimeError: worker 3 failed\n";
  for (int i = 0; i < 9; ++i) message += std::string(3000, 'x') + "\n";
  culprit_of(outcome).error = ErrorRecord{message + "  train.py:12: ValueError: bad sample 7\n", false};
  const std::string text = summary(outcome);
  CHECK(text.size() < 2500);
  CHECK_THAT(text, Catch::Contains("  | RuntimeError: worker 3 failed\n  | xxxxxxxx"));
  CHECK_THAT(text, Catch::Contains("xxx...\n"));
  CHECK_THAT(text, Catch::EndsWith("xxx...\n  |   train.py:12: ValueError: bad sample 7"));
  // Two long lines share the limit. Bytes that are shown as four characters count as such.
  culprit_of(outcome).error = ErrorRecord{std::string(9000, 'a') + "\n" + std::string(9000, '\x01'), false};
  CHECK(summary(outcome).size() < 2200);
  CHECK_THAT(summary(outcome), Catch::Contains("aaa...\n  | \\x01"));
}

TEST_CASE("a SIGKILL from outside is explained") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::killed(SIGKILL)), {}};
  culprit_of(outcome).peak_rss_bytes = 3ULL << 30;
  CHECK_THAT(summary(outcome),
             Catch::Contains("ddplaunch did not send SIGKILL") && Catch::Contains("its peak was 3 GiB"));
  culprit_of(outcome).oom = OomKill{"/sys/fs/cgroup/job", 64 << 20, 63 << 20};
  CHECK_THAT(summary(outcome),
             Catch::Contains("out-of-memory killer killed it in cgroup /sys/fs/cgroup/job, limit 64 MiB, "
                             "peak 63 MiB; its peak was 3 GiB"));
  culprit_of(outcome).oom = OomKill{};
  CHECK_THAT(summary(outcome), Catch::Contains("because the node or an outer container had no memory left"));
}

TEST_CASE("the core file, the last lines and the log of the culprit are reported") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(2, ExitStatus::killed(SIGSEGV, true)), {}};
  const auto lines = failure_summary(outcome, plan_of(4), {"/var/crash/core.4711", {"loading", "bad shard"}, "/l/2"});
  CHECK_THAT(ddp::base::join(lines, "\n"), Catch::Contains("  core: /var/crash/core.4711\n  its last lines:\n"
                                                           "  | loading\n  | bad shard\n  log: /l/2"));
}

TEST_CASE("an error that was also printed is reported once") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  culprit_of(outcome).error = ErrorRecord{"ValueError: bad\nshard", false};
  const auto text = [&](std::vector<std::string> printed) {
    return ddp::base::join(failure_summary(outcome, plan_of(1), {"", std::move(printed), ""}), "\n");
  };
  CHECK_THAT(text({"in line 3", "main: ValueError: bad", "shard"}), !Catch::Contains("its error"));
  CHECK_THAT(text({"ValueError: bad"}), Catch::Contains("its error:\n  | ValueError: bad\n  | shard"));
}

TEST_CASE("ranks that were not started yet are mentioned") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  outcome.not_started = {2, 3};
  CHECK_THAT(summary(outcome), Catch::Contains("ranks 2, 3 had not been started yet"));
  CHECK(failure_summary(JobOutcome{}, plan_of(2), {}).empty());
}

TEST_CASE("a rank that did not exit with the others is named") {
  JobOutcome outcome;
  outcome.cause = ExitTimedOut{};
  outcome.left_early = {0, 2};
  outcome.ended_ranks = {1};
  outcome.asked_with = {SIGTERM};
  CHECK_THAT(summary(outcome), Catch::Contains("rank 1 was still running 5 min after ranks 0, 2 exited with code 0"));
}

TEST_CASE("secondary failures, killed ranks and ranks that survive SIGKILL are distinguished") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(3)), {}};
  outcome.also_failed = {end_of(1, ExitStatus::exited(1))};
  outcome.also_failed[0].error = ErrorRecord{"lost", true};
  outcome.ended_ranks = {2};
  outcome.asked_with = {SIGTERM};
  outcome.needed_kill = true;
  outcome.ending_time = 5100ms;
  outcome.unkillable = {{3, 99}};
  const std::string text = summary(outcome);
  CHECK(text.find("rank 1 failed because of it: exit code 1") != std::string::npos);
  CHECK(text.find("rank 2 was terminated because of it (SIGTERM, then SIGKILL after the grace period of 5.0 s, gone in "
                  "5.1 s)") != std::string::npos);
  CHECK(text.find("rank 3 (pid 99) survives SIGKILL") != std::string::npos);

  FailureEvidence evidence;
  evidence.of_other_users = {99};
  const std::string of_other_user = ddp::base::join(failure_summary(outcome, plan_of(4), evidence), "\n");
  CHECK(of_other_user.find("rank 3 (pid 99) cannot be terminated: it now runs as another user") != std::string::npos);
}

TEST_CASE("another process that cannot be killed is reported with the reason") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(3)), {}};
  outcome.leftovers = {99};
  CHECK_THAT(summary(outcome), Catch::EndsWith("1 other process of the job cannot be killed, the first with pid 99"));
  FailureEvidence evidence;
  evidence.of_other_users = {99};
  CHECK(failure_summary(outcome, plan_of(4), evidence).back() ==
        "  1 other process of the job cannot be killed, the first with pid 99, which runs as another user");
}

TEST_CASE("a rank that --inject killed is reported as such") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::killed(SIGKILL)), {}};
  CHECK_THAT(summary(outcome), Catch::Contains("ddplaunch did not send SIGKILL"));
  culprit_of(outcome).is_injected = true;
  CHECK_THAT(summary(outcome),
             Catch::Contains("  ddplaunch killed it (--inject)") && !Catch::Contains("ddplaunch did not send SIGKILL"));
}

TEST_CASE("a secondary failure without a culprit names the ranks that had left") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  culprit_of(outcome).error = ErrorRecord{"lost", true};
  CHECK(summary(outcome).find("it lost another rank, but no rank failed on its own") != std::string::npos);
  outcome.left_early = {1, 3};
  CHECK(summary(outcome).find("it lost another rank: ranks 1, 3 had already exited with code 0") != std::string::npos);
}

TEST_CASE("a rank whose own timeout expired is reported after the rank it waited for") {
  Verdict verdict;
  verdict.kind = VerdictKind::not_called;
  verdict.group = "world";
  verdict.sequence = 6;
  verdict.call = "all_reduce sum f32[64]";
  verdict.culprits = {1};
  verdict.waiting = {0, 2};
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(2, ExitStatus::exited(3)), verdict};
  culprit_of(outcome).error = ErrorRecord{.message = "gave up", .is_timeout = true};
  outcome.run_time = 8s;
  CHECK_THAT(
      summary(outcome),
      Catch::StartsWith("rank 1 has not called all_reduce sum f32[64] (#6 of world), in which ranks 0, 2 wait") &&
          Catch::Contains("\n  rank 2 (pid ") && Catch::Contains(") gave up waiting: exit code 3, 8.0 s after"));
}

TEST_CASE("a signal and a failed start are reported in one line") {
  JobOutcome outcome;
  outcome.cause = SignalArrived{SIGINT};
  outcome.run_time = 61s;
  CHECK(summary(outcome) == "terminated by SIGINT, 1 min 1 s after the start");
  JobOutcome failed;
  failed.cause = SpawnFailed{0, {126, "cannot start ./x: not a program."}};
  CHECK(summary(failed) == "cannot start ./x: not a program.");
}

TEST_CASE("a successful job has no report") {
  CHECK(failure_summary(JobOutcome{}, plan_of(2), {}).empty());
}

TEST_CASE("the start line shows workers, nodes, GPUs and the store") {
  Placement placement;
  placement.master_addr = "127.0.0.1";
  placement.master_port = 41873;
  CHECK(start_line(plan_of(2), placement).ends_with("2 workers on node a (GPU 0, 1), store 127.0.0.1:41873"));
  placement.master_addr = "fe80::1";
  CHECK(start_line(plan_of(2), placement).ends_with("store [fe80::1]:41873"));
  LaunchPlan plan = plan_of(2);
  plan.devices.assign(2, std::nullopt);
  CHECK_THAT(start_line(plan, placement), Catch::Contains("2 workers on node a (no GPU), store"));
  plan.has_uncounted_gpus = true;  // WSL2
  CHECK_THAT(start_line(plan, placement), Catch::Contains("2 workers on node a, store"));
}

TEST_CASE("a SIGTERM from outside and a file size limit are explained") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::killed(SIGTERM)), {}};
  CHECK_THAT(summary(outcome), Catch::Contains("  ddplaunch did not send SIGTERM"));
  culprit_of(outcome).after_signal = true;
  CHECK_THAT(summary(outcome), !Catch::Contains("ddplaunch did not send SIGKILL"));
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::killed(SIGXFSZ)), {}};
  CHECK_THAT(summary(outcome), Catch::Contains("larger than its limit (ulimit -f)"));
}

TEST_CASE("a secondary failure names the rank that it lost") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  culprit_of(outcome).error = ErrorRecord{.message = "lost", .is_secondary = true, .peer = 1};
  CHECK_THAT(summary(outcome), Catch::Contains("  it lost rank 1, but no rank failed on its own"));
  outcome.ended_ranks = {1, 2};
  outcome.asked_with = {SIGTERM};
  CHECK_THAT(summary(outcome), Catch::Contains("  it lost rank 1, which was still running"));
}

TEST_CASE("the places of a crash and of differing calls are reported") {
  Verdict verdict;
  verdict.kind = VerdictKind::different_arguments;
  verdict.group = "world";
  verdict.sequence = 7;
  verdict.culprits = {0, 1};
  verdict.sides = {{0, {7, 1, 1, "all_reduce f32[8]", "", ""}}, {1, {7, 2, 1, "all_reduce f32[4]", "", ""}}};
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(1, ExitStatus::killed(SIGABRT)), verdict};
  outcome.ends = {end_of(1, ExitStatus::killed(SIGABRT)), end_of(0, ExitStatus::exited(1)),
                  end_of(2, ExitStatus::exited(1))};
  outcome.ends[1].error = ErrorRecord{.message = "lost", .is_secondary = true, .place = "train.py:9 in step"};
  outcome.ends[2].error = ErrorRecord{.message = "lost", .is_secondary = true, .place = "other.py:1 in f"};
  culprit_of(outcome).crash_place = "train.py:7 in step";
  const std::string text = summary(outcome);
  CHECK_THAT(text, Catch::Contains("\n  rank 0 was at train.py:9 in step\n"));
  CHECK_THAT(text, Catch::Contains("\n  at train.py:7 in step"));
  CHECK_THAT(text, !Catch::Contains("other.py"));
  // The library's own error is explained by the calls, and has no better place.
  culprit_of(outcome).error = ErrorRecord{.message = "sizes differ", .is_mismatch = true};
  CHECK_THAT(summary(outcome), Catch::Contains("\n  at train.py:7 in step") && !Catch::Contains("sizes differ"));
}

TEST_CASE("the failure summary says whether a request, a lost guardian or a second request led to SIGKILL") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(3)), {}};
  outcome.ended_ranks = {1};
  outcome.asked_with = {SIGTERM};
  outcome.needed_kill = true;
  outcome.kill_reason = KillReason::asked_to_end;
  CHECK_THAT(summary(outcome), Catch::Contains("then SIGKILL when ddplaunch was asked to stop, gone"));
  outcome.kill_reason = KillReason::guardian_lost;
  CHECK_THAT(summary(outcome), Catch::Contains("then SIGKILL when the first process of ddplaunch was killed, gone"));
  outcome.cause = SignalArrived{SIGINT};
  outcome.kill_reason = KillReason::asked_to_end;
  CHECK_THAT(summary(outcome), Catch::Contains("then SIGKILL on a second request, gone"));
}

TEST_CASE("a node is reported by its name in the job") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  FailureEvidence evidence;
  evidence.node = "a#2";
  CHECK_THAT(ddp::base::join(failure_summary(outcome, plan_of(4), evidence), "\n"),
             Catch::Contains("  node a#2, GPU 0"));
  Placement placement;
  placement.node_name = "a#2";
  CHECK_THAT(start_line(plan_of(2), placement), Catch::Contains("2 workers on node a#2 (GPU"));
}

TEST_CASE("a traceback that the console has shown is not repeated") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  culprit_of(outcome).error = ErrorRecord{"ValueError: bad"};
  culprit_of(outcome).error->place = "train.py:7 in main";
  LaunchPlan plan = plan_of(1);
  plan.output.workers.resize(1);
  const FailureEvidence evidence{
      "", {"Traceback (most recent call last):", "  File \"train.py\", line 7, in main", "ValueError: bad"}, ""};
  const auto text = [&] { return ddp::base::join(failure_summary(outcome, plan, evidence), "\n"); };
  CHECK_THAT(text(), Catch::EndsWith("\n  its error:\n  | ValueError: bad\n  at train.py:7 in main"));
  plan.output.workers[0].err.to_console = false;
  CHECK_THAT(text(), Catch::EndsWith("\n  at train.py:7 in main\n  its last lines:\n  | Traceback (most recent call "
                                     "last):\n  |   File \"train.py\", line 7, in main\n  | ValueError: bad"));
}

TEST_CASE("errors from how a Python program was started have a remedy") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::exited(1)), {}};
  LaunchPlan plan = plan_of(1);
  plan.program = "/usr/bin/python3";
  const auto what_follows = [&](const std::vector<std::string>& last_lines) {
    FailureEvidence evidence;
    evidence.last_lines = last_lines;
    const std::string text = ddp::base::join(failure_summary(outcome, plan, evidence), "\n");
    const std::string quoted = last_lines.empty() ? "program /usr/bin/python3" : "  | " + last_lines.back();
    return text.substr(text.find(quoted) + quoted.size());
  };
  CHECK_THAT(what_follows({"    breakpoint()", "[rank0]: bdb.BdbQuit"}), Catch::Contains("--stdin=0"));
  CHECK_THAT(what_follows({"train.py: error: unrecognized arguments: --local_rank=1"}),
             Catch::Contains("add_argument"));
  CHECK_THAT(what_follows({"ModuleNotFoundError: No module named 'torch'"}), Catch::Contains("/usr/bin/python3"));
  CHECK_THAT(what_follows({"ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
                           "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 17000"}),
             Catch::Contains("torch.cuda.set_device"));
  CHECK(what_follows({"ValueError: bad"}).empty());
  CHECK(what_follows({}).empty());
}

TEST_CASE("two failures are equal if rank, status and message are, except for numbers") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(2, ExitStatus::exited(1)), {}};
  const auto signature = [&](int rank, int code, const std::string& line) {
    outcome.cause = WorkerFailed{end_of(rank, ExitStatus::exited(code)), {}};
    FailureEvidence evidence;
    evidence.last_lines = {line};
    return failure_signature(outcome, evidence);
  };
  CHECK(signature(2, 1, "step 10: nan") == signature(2, 1, "step 731: nan"));
  CHECK(signature(2, 1, "nan") != signature(1, 1, "nan"));
  CHECK(signature(2, 1, "nan") != signature(2, 3, "nan"));
  CHECK(signature(2, 1, "nan") != signature(2, 1, "inf"));
  CHECK(failure_signature(JobOutcome(), {}).empty());
}

TEST_CASE("a lack of shared memory is recognised by the signal or the error") {
  const ExitStatus failed = ExitStatus::exited(1);
  CHECK(may_lack_shared_memory(ExitStatus::killed(SIGBUS, false), {}));
  CHECK_FALSE(may_lack_shared_memory(ExitStatus::killed(SIGSEGV, false), {}));
  for (const std::string line :
       {"RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "RuntimeError: unable to write to file </torch_7_1>: No space left on device (28)",
        "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes, error: No space "
        "left "
        "on device (28)",
        "NCCL WARN Error while creating shared memory segment nccl-shm (size 9637888): No space left on device"}) {
    CAPTURE(line);
    CHECK(may_lack_shared_memory(failed, {"first", line}));
  }
  for (const std::string line : {"OSError: [Errno 28] No space left on device: 'out.pt'", "uses shared memory", ""}) {
    CAPTURE(line);
    CHECK_FALSE(may_lack_shared_memory(failed, {line}));
  }
}

TEST_CASE("a small /dev/shm is reported with its size and a remedy") {
  constexpr std::uint64_t mib = 1 << 20;
  CHECK(shared_memory_line({64 * mib, 60 * mib}, "a") ==
        "/dev/shm of a has 64 MiB, of which 60 MiB are free now. A worker that needs more shared memory gets SIGBUS. "
        "Enlarge it (docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm)");
  CHECK_THAT(shared_memory_line({8192 * mib, 9 * mib}, "a"), Catch::Contains("--shm-size"));
  const std::string large = shared_memory_line({8192 * mib, 8000 * mib}, "a");
  CHECK_THAT(large, !Catch::Contains("--shm-size") && Catch::Contains("becomes shorter"));
}

TEST_CASE("the size of a file system is read") {
  CHECK(read_shared_memory("/proc/self").has_value());
  CHECK_FALSE(read_shared_memory("/no/such/folder").has_value());
}

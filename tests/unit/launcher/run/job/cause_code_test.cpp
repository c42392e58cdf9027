#include "launcher/run/job/cause_code.h"

#include <csignal>
#include <set>
#include <string>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;
using ddp::wire::CauseCode;

namespace {

WorkerEnd ended(ExitStatus status, const std::string& error = "", const std::string& place = "") {
  WorkerEnd end;
  end.rank = 1;
  end.status = status;
  if (!error.empty()) end.error = ErrorRecord{.message = error, .place = place};
  return end;
}

WorkerEnd raised(const std::string& error, const std::string& place = "/a/train.py:83 in train") {
  return ended(ExitStatus::exited(1), error, place);
}

JobOutcome failed(WorkerEnd end) {
  JobOutcome outcome;
  outcome.status = end.status;
  outcome.cause = WorkerFailed{std::move(end), std::nullopt};
  return outcome;
}

CauseCode code(RootCause cause) {
  JobOutcome outcome;
  outcome.cause = std::move(cause);
  return code_of(outcome);
}

}  // namespace

TEST_CASE("the exit of a worker shows the cause code of its failure") {
  CHECK(code_of(failed(raised("KeyError: 'a'"))) == CauseCode::program);
  CHECK(code_of(failed(ended(ExitStatus::exited(3)))) == CauseCode::program);
  CHECK(code_of(failed(ended(ExitStatus::killed(SIGSEGV)))) == CauseCode::program);
  CHECK(code_of(failed(ended(ExitStatus::killed(SIGKILL)))) == CauseCode::killed);
  CHECK(code_of(failed(raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."))) ==
        CauseCode::gpu_out_of_memory);
  CHECK(code_of(failed(raised("RuntimeError: CUDA error: uncorrectable ECC error encountered"))) ==
        CauseCode::hardware);
  WorkerEnd out_of_memory = ended(ExitStatus::killed(SIGKILL));
  out_of_memory.oom = OomKill{};
  CHECK(code_of(failed(out_of_memory)) == CauseCode::out_of_memory);
  WorkerEnd lost = raised("RuntimeError: Connection closed by peer");
  lost.error->is_secondary = true;
  CHECK(code_of(failed(lost)) == CauseCode::lost_rank);
}

TEST_CASE("each other cause has its own cause code") {
  CHECK(code({}) == CauseCode::none);
  CHECK(code(SpawnFailed{}) == CauseCode::cannot_start);
  CHECK(code(HangNews{}) == CauseCode::hang);
  HangNews in_transport;
  in_transport.verdict.kind = VerdictKind::transport;
  CHECK(code(in_transport) == CauseCode::transport);
  in_transport.verdict.kind = VerdictKind::gpu_behind;
  CHECK(code(in_transport) == CauseCode::transport);
  CHECK(code(ExitTimedOut{}) == CauseCode::hang);
  CHECK(code(GuardianLost{}) == CauseCode::launcher);
  CHECK(code(SignalArrived{.signal = SIGTERM, .ends_job = true}) == CauseCode::preempted);
  CHECK(code(SignalArrived{.signal = SIGUSR1, .ends_job = false}) == CauseCode::preempted);
  CHECK(code(SignalArrived{.signal = SIGINT, .ends_job = true}) == CauseCode::interrupted);
  ddp::wire::Cause there;
  there.code = CauseCode::lost_node;
  CHECK(code(EndedElsewhere{there}) == CauseCode::lost_node);
  JobOutcome saved;
  saved.has_saved = true;
  CHECK(code_of(saved) == CauseCode::preempted);
  JobOutcome repeated = failed(raised("KeyError: 'a'"));
  repeated.code_of_job = CauseCode::repeated_error;
  CHECK(code_of(repeated) == CauseCode::repeated_error);
}

TEST_CASE("exit code 75 is a preemption only if the job was asked to save") {
  JobOutcome failed_while_saving = failed(ended(ExitStatus::exited(3)));
  failed_while_saving.code_of_job = CauseCode::preempted;  // the coordinator decides that
  CHECK(code_of(failed_while_saving) == CauseCode::preempted);
  JobOutcome own = failed(ended(ExitStatus::exited(75)));
  CHECK(code_of(own) == CauseCode::program);
  own.was_asked_to_save = true;
  CHECK(code_of(own) == CauseCode::preempted);
  ddp::wire::Cause there;
  there.code = CauseCode::program;
  there.exit_code = 75;
  CHECK(code(EndedElsewhere{there}) == CauseCode::program);
  JobOutcome beside = failed(ended(ExitStatus::exited(3)));
  beside.status = ExitStatus::exited(75);
  CHECK(code_of(beside) == CauseCode::program);
}

TEST_CASE("each cause code says whether to restart, and only lost nodes do not count as restarts") {
  const std::set<std::string_view> answers = {"yes", "no", "perhaps", "elsewhere"};
  for (auto code = CauseCode::none; code <= CauseCode::launcher; code = static_cast<CauseCode>(int(code) + 1)) {
    CAPTURE(ddp::wire::name_of(code));
    CHECK(answers.contains(repeat_after(code)));
    CHECK(counts_as_restart(code) == (code != CauseCode::preempted && code != CauseCode::lost_node));
  }
  CHECK(repeat_after(CauseCode::repeated_error) == "no");
  CHECK(repeat_after(CauseCode::hardware) == "elsewhere");
  CHECK(repeat_after(CauseCode::preempted) == "yes");
}

TEST_CASE("the same error of a program has the same fingerprint in each attempt") {
  CHECK(repeatable_error(failed(raised("KeyError: 'a'"))) == "rank 1: KeyError at /a/train.py:83 in train");
  CHECK(repeatable_error(failed(raised("KeyError: 'b'"))) == repeatable_error(failed(raised("KeyError: 'a'"))));
  CHECK(repeatable_error(failed(raised("AssertionError"))) == "rank 1: AssertionError at /a/train.py:83 in train");
  CHECK(repeatable_error(failed(raised("ddp::Error (invalid_argument): no such rank", ""))) ==
        "rank 1: ddp::Error (invalid_argument): no such rank");
  WorkerEnd crash = ended(ExitStatus::killed(SIGSEGV));
  CHECK(repeatable_error(failed(crash)).empty());
  crash.crash_place = "/a/train.py:9 in f";
  CHECK(repeatable_error(failed(crash)) == "rank 1: killed by SIGSEGV at /a/train.py:9 in f");
}

TEST_CASE("an error that may be random has no fingerprint") {
  for (const char* error : {"OSError: [Errno 5] Input/output error", "ConnectionResetError: [Errno 104]",
                            "TimeoutError: timed out", "RuntimeError: CUDA error: unspecified launch failure",
                            "torch.OutOfMemoryError: CUDA out of memory.", "MemoryError", "KeyErrors: 1",
                            "ddp::Error (timeout): rank 0 did not answer", "FileNotFoundError: [Errno 2] x"}) {
    CAPTURE(error);
    CHECK(repeatable_error(failed(raised(error))).empty());
  }
  CHECK(repeatable_error(failed(ended(ExitStatus::exited(3)))).empty());
  CHECK(repeatable_error(failed(ended(ExitStatus::killed(SIGKILL)))).empty());
  CHECK(repeatable_error({}).empty());
  for (const auto change :
       {+[](WorkerEnd& end) { end.error->is_secondary = true; }, +[](WorkerEnd& end) { end.error->is_timeout = true; },
        +[](WorkerEnd& end) { end.error->is_mismatch = true; }, +[](WorkerEnd& end) { end.is_injected = true; }}) {
    WorkerEnd end = raised("ValueError: x");
    change(end);
    CHECK(repeatable_error(failed(end)).empty());
  }
}

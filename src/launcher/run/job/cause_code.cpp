#include "launcher/run/job/cause_code.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/start/causes/cause_table.h"

namespace ddp::launcher {
namespace {

using wire::CauseCode;

struct Row {
  CauseCode code;
  std::string_view repeat;
  bool counts = true;
};
constexpr std::array kRows = {
    Row{CauseCode::none, "no"},
    Row{CauseCode::program, "perhaps"},
    Row{CauseCode::repeated_error, "no"},
    Row{CauseCode::out_of_memory, "perhaps"},
    Row{CauseCode::gpu_out_of_memory, "perhaps"},
    Row{CauseCode::hardware, "elsewhere"},
    Row{CauseCode::killed, "yes"},
    Row{CauseCode::lost_rank, "yes"},
    Row{CauseCode::hang, "perhaps"},
    Row{CauseCode::transport, "perhaps"},
    Row{CauseCode::cannot_start, "no"},
    Row{CauseCode::preempted, "yes", false},
    Row{CauseCode::interrupted, "no"},
    Row{CauseCode::lost_node, "yes", false},
    Row{CauseCode::launcher, "perhaps"},
};

const Row& row_of(CauseCode code) {
  return *std::ranges::find(kRows, code, &Row::code);
}

// Known errors that say more than that the program failed.
struct Known {
  std::string_view id;
  CauseCode code;
};
constexpr std::array kKnown = {
    Known{"gpu-lost", CauseCode::hardware},
    Known{"gpu-ecc", CauseCode::hardware},
    Known{"gpu-fabric", CauseCode::hardware},
    Known{"cuda-out-of-memory", CauseCode::gpu_out_of_memory},
    Known{"cublas-out-of-memory", CauseCode::gpu_out_of_memory},
    Known{"nccl-gpu-memory", CauseCode::gpu_out_of_memory},
    Known{"host-memory", CauseCode::out_of_memory},
};

// Errors that a program makes by itself.
constexpr std::array kOwnErrors = {"ArithmeticError",    "AssertionError",
                                   "AttributeError",     "FloatingPointError",
                                   "ImportError",        "IndentationError",
                                   "IndexError",         "KeyError",
                                   "LookupError",        "ModuleNotFoundError",
                                   "NameError",          "NotImplementedError",
                                   "OverflowError",      "RecursionError",
                                   "StopIteration",      "SyntaxError",
                                   "TypeError",          "UnboundLocalError",
                                   "ValueError",         "ZeroDivisionError",
                                   "UnicodeDecodeError", "ddp::Error (invalid_argument)"};

constexpr std::array kCrashes = {SIGSEGV, SIGFPE, SIGILL, SIGABRT};

// Returns the kind of an error, such as "KeyError", or an empty string if it may be chance.
std::string_view own_error_of(const std::string& message) {
  for (const std::string_view name : kOwnErrors) {
    if (message.starts_with(name) && (message.size() == name.size() || message[name.size()] == ':')) return name;
  }
  return "";
}

CauseCode code_of(const WorkerEnd& end) {
  if (end.oom) return CauseCode::out_of_memory;
  if (end.error) {
    if (const Cause* known = find_cause_in(base::split(end.error->message, '\n'))) {
      const auto row = std::ranges::find(kKnown, known->id, &Known::id);
      if (row != kKnown.end()) return row->code;
    }
    if (end.is_secondary()) return CauseCode::lost_rank;
  }
  const bool is_foreign = end.status.was_killed_by(SIGKILL) || end.status.was_killed_by(SIGTERM);
  return is_foreign && !end.is_our_doing() ? CauseCode::killed : CauseCode::program;
}

struct CodeOfCause {
  CauseCode operator()(std::monostate) const { return CauseCode::none; }
  CauseCode operator()(const WorkerFailed& failed) const { return code_of(failed.end); }
  CauseCode operator()(const SpawnFailed&) const { return CauseCode::cannot_start; }
  CauseCode operator()(const SignalArrived& request) const { return code_of(request); }
  CauseCode operator()(const GuardianLost&) const { return CauseCode::launcher; }
  CauseCode operator()(const ExitTimedOut&) const { return CauseCode::hang; }
  CauseCode operator()(const HangNews& hang) const {
    return all_wait(hang.verdict.kind) ? CauseCode::transport : CauseCode::hang;
  }
  CauseCode operator()(const EndedElsewhere& elsewhere) const { return elsewhere.cause.code; }
};

}  // namespace

CauseCode code_of(const JobOutcome& outcome) {
  if (outcome.has_saved) return CauseCode::preempted;
  if (outcome.code_of_job != CauseCode::none) return outcome.code_of_job;
  // A program may exit with 75 although it was not asked to save.
  const WorkerEnd* culprit = outcome.culprit();
  const bool has_asked = culprit != nullptr && culprit->status == base::ExitStatus::exited(base::kExitSaved);
  if (has_asked && outcome.was_asked_to_save) return CauseCode::preempted;
  return std::visit(CodeOfCause{}, outcome.cause);
}

CauseCode code_of(const SignalArrived& request) {
  const bool is_save = !request.ends_job || request.signal == SIGTERM;
  return is_save ? CauseCode::preempted : CauseCode::interrupted;
}

std::string_view repeat_after(CauseCode code) {
  return row_of(code).repeat;
}

bool counts_as_restart(CauseCode code) {
  return row_of(code).counts;
}

std::string repeatable_error(const JobOutcome& outcome) {
  const WorkerEnd* end = outcome.culprit();
  if (end == nullptr || end->is_our_doing() || end->is_injected) return "";
  const std::string rank = "rank " + std::to_string(end->rank) + ": ";
  if (end->error) {
    const std::string_view kind = own_error_of(end->error->message);
    if (kind.empty() || end->is_secondary() || end->gave_up() || end->found_mismatch()) return "";
    return rank + (end->error->place.empty() ? end->error->message : std::string(kind) + " at " + end->error->place);
  }
  const bool has_crashed = std::ranges::any_of(kCrashes, [&](int signal) { return end->status.was_killed_by(signal); });
  return has_crashed && !end->crash_place.empty() ? rank + end->status.describe() + " at " + end->crash_place : "";
}

}  // namespace ddp::launcher

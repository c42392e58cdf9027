#include "runtime/group/fault_injector.h"

#include <ddp/error.h>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "runtime/group/group_errors.h"
#include "runtime/peers/mismatch_check.h"
#include "wire/call_names.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

// Returns another type of the same size, so that the memory stays valid. The table is in the order of DataType.
DataType other_type(DataType type) {
  using T = DataType;
  constexpr std::array<T, kDataTypes.size()> kOthers = {T::i16, T::i16, T::i32, T::i64, T::u8,
                                                        T::f16, T::f32, T::f64, T::i8,  T::i8};
  return kOthers[static_cast<std::size_t>(type)];
}

template <typename Change>
void change_buffers(Call& call, const Change& change) {
  change(call.input);
  change(call.output);
  for (ConstBuffer& part : call.input_parts) change(part);
  for (Buffer& part : call.output_parts) change(part);
}

// Removes one element for every rank. Buffers that hold one part per rank become shorter by one element per part.
void shrink(Call& call, int size) {
  const std::size_t part = call.operation == Operation::all_gather ? call.input.count : call.output.count;
  const std::size_t whole = part * static_cast<std::size_t>(size);
  const bool has_parts = call.operation == Operation::all_gather || call.operation == Operation::reduce_scatter ||
                         call.operation == Operation::gather || call.operation == Operation::scatter;
  change_buffers(call, [&](auto& buffer) {
    const bool is_whole = call.operation == Operation::all_to_all || (has_parts && size > 1 && buffer.count == whole);
    const std::size_t less = is_whole ? static_cast<std::size_t>(size) : 1;
    if (buffer.count >= less) buffer.count -= less;
  });
}

void retype(Call& call) {
  change_buffers(call, [](auto& buffer) { buffer.type = other_type(buffer.type); });
  if (has_reduction(call.operation) && !is_defined(call.op, call.output.type)) call.op = ReduceOp::sum;
}

[[noreturn]] void wait_for_own_mutex() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // records no owner, so locking it twice blocks
  ::pthread_mutex_lock(&mutex);
  while (true) ::pthread_mutex_lock(&mutex);
}

[[noreturn]] void spin() {
  for (std::atomic<std::uint64_t> rounds = 0;;) ++rounds;
}

void say(const wire::Fault& fault, const Call& call) {
  const std::string_view kind = wire::name_of(wire::kFaultNames, static_cast<std::uint64_t>(fault.kind));
  const std::string text = "ddp: rank " + std::to_string(fault.rank) + ": injected fault '" + std::string(kind) +
                           "' at its " + (fault.operation.empty() ? "collective" : fault.operation) + " #" +
                           std::to_string(fault.number) + ": " + std::string(to_string(call.operation)) + " of " +
                           describe(subject_of(call)) + (call.name.empty() ? "" : " ('" + call.name + "')") +
                           place_in_program(call.site.file, call.site.line) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

FaultInjector::FaultInjector(const std::vector<wire::Fault>& faults, int attempt) {
  for (const wire::Fault& fault : faults) {
    if (fault.after) throw timed_fault_error(wire::env::kInject);
    if (fault.attempt == attempt) armed_.emplace_back().fault = fault;
  }
}

std::optional<wire::Fault> FaultInjector::due(int rank, Operation operation) {
  std::optional<wire::Fault> due;
  for (Armed& armed : armed_) {
    const bool is_meant =
        armed.fault.operation.empty() ? !is_transfer(operation) : armed.fault.operation == to_string(operation);
    if (armed.fault.rank != rank || !is_meant) continue;
    if (++armed.calls == armed.fault.number && !due) due = armed.fault;
  }
  return due;
}

FaultOutcome carry_out(const wire::Fault& fault, Call& call, int size) {
  using wire::FaultKind;
  const bool needs_data = fault.kind == FaultKind::shape || fault.kind == FaultKind::dtype;
  if (needs_data && subject_of(call).count == 0) {
    throw fault_without_data_error(std::string(to_string(call.operation)), fault.number);
  }
  say(fault, call);
  switch (fault.kind) {
    case FaultKind::stop:
      ::raise(SIGSTOP);
      break;
    case FaultKind::kill:
      ::raise(SIGKILL);
      break;
    case FaultKind::exit0:
      ::_exit(0);
    case FaultKind::delay:
      std::this_thread::sleep_for(fault.delay);
      break;
    case FaultKind::mutex:
      wait_for_own_mutex();
    case FaultKind::spin:
      spin();
    case FaultKind::skip:
      return FaultOutcome::skip;
    case FaultKind::swap:
      return FaultOutcome::call_barrier_first;
    case FaultKind::shape:
      shrink(call, size);
      break;
    case FaultKind::dtype:
      retype(call);
      break;
  }
  return FaultOutcome::call;
}

}  // namespace ddp::internal

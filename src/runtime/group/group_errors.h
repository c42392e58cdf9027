// All errors of process groups and their operations, except those about arguments, which process_group.cpp checks.
#pragma once

#include <ddp/error.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ddp::internal {

// Objects that were moved from

inline Error empty_group_error() {
  return {ErrorKind::invalid_argument,
          "this ProcessGroup is empty: it was moved from or never assigned. init(), new_group() and split() create a "
          "group; a copy refers to the same group."};
}
inline Error empty_work_error() {
  return {ErrorKind::invalid_argument, "this Work is empty: it was moved from. Use the Work that it was moved to."};
}

// Memory. `what` is an operation and a buffer, or a tensor.

inline Error no_memory_error(const std::string& what) {
  return {ErrorKind::invalid_argument, what + " has no memory (a null pointer)"};
}
inline std::string out_of_reach_text(const std::string& what, const std::string& backend) {
  return what + " is in GPU memory, which backend " + backend + " cannot reach. Use nccl";
}
inline std::string impossible_shape_text(const std::string& tensor) {
  return "tensor " + tensor + " has an impossible shape";
}
inline std::string wrong_shape_text(const std::string& tensor, std::size_t elements, std::size_t of_shape) {
  return "tensor " + tensor + " has " + base::counted(static_cast<std::int64_t>(elements), "element") +
         ", but its shape has " + std::to_string(of_shape);
}

// Why a group is closed

inline constexpr const char* kAbortedText = "the process group was aborted";
inline constexpr const char* kFinalizedText = "the process group was finalized";
inline constexpr const char* kDestroyedText = "the process group was destroyed";
inline constexpr const char* kWorkWasLeftText = "an exception passed the Work of a pending operation";

inline std::string earlier_failure_text(const std::string& failure) {
  return "an earlier operation failed: " + failure;
}
inline std::string continuation_threw_text(const std::string& failure) {
  return "a continuation (Work::then) threw: " + failure;
}
inline Error closed_group_error(int rank, const std::string& function, const std::string& reason) {
  return {ErrorKind::aborted, "rank " + std::to_string(rank) + ": " + function + ": " + reason};
}
inline OperationError not_run_error(const std::string& call, const std::string& reason,
                                    OperationError::Operation operation) {
  return {ErrorKind::aborted, call + ": not run, because " + reason, Error::kNobody, std::move(operation)};
}

// Waits that could never end

inline Error wait_in_batch_error() {
  return {ErrorKind::invalid_argument,
          "cannot wait for an operation within a batch (ProcessGroup::batch), because it starts only when the "
          "CollectiveBatch ends"};
}
inline Error wait_in_continuation_error(const std::string& function) {
  return {ErrorKind::invalid_argument,
          function +
              " was called within a continuation (Work::then). The group's next operation begins only when the "
              "continuation returns, so waiting there could hang. Wait on another thread, or after the continuation."};
}

// Failures of operations

inline Error exited_error(int rank, const Error& error) {
  return {ErrorKind::peer_lost, "rank " + std::to_string(rank) + " has exited (" + error.what() + ")", rank};
}
// `named` knows which ranks are late, and `error` is the backend's.
inline Error late_in_backend_error(const Error& named, const Error& error) {
  return {ErrorKind::timeout, std::string(named.what()) + " (" + error.what() + ")", named.peer()};
}
inline Error parts_error(const std::string& difference, int rank, const std::string& call, int other,
                         const std::string& others_call, int peer) {
  return {ErrorKind::mismatch,
          difference + ": rank " + std::to_string(rank) + " calls " + call + ", rank " + std::to_string(other) +
              " calls " + others_call,
          peer};
}

// new_group and monitored_barrier

inline std::string new_group_text(int rank, const std::string& group, const std::string& ranks, const Error& error) {
  const std::string why = error.kind() == ErrorKind::peer_lost
                              ? std::string(error.what())
                              : "some of them did not arrive. All of them must call new_group with the same ranks in "
                                "the same order (" +
                                    std::string(error.what()) + ")";
  return "rank " + std::to_string(rank) + ": new_group '" + group + "' of ranks " + ranks + ": " + why;
}
inline std::string barrier_text(int rank, int number, const std::string& why) {
  return "rank " + std::to_string(rank) + ": monitored_barrier #" + std::to_string(number) + ": " + why;
}
// `missing` holds the ranks that have not arrived. It is empty if all have arrived by now.
inline std::string missing_at_barrier_text(const std::vector<int>& missing, std::chrono::milliseconds timeout) {
  return (missing.empty() ? "rank 0 arrived too late or had given up" : base::ranks_text(missing) + " did not arrive") +
         " within " + base::human_duration(timeout);
}
inline std::string barrier_given_up_text(const std::string& why) {
  return "rank 0 gave up before all ranks arrived: " + why;
}

// --inject

inline Error timed_fault_error(const std::string& variable) {
  return {ErrorKind::invalid_argument,
          variable + ": only ddplaunch can inject a fault at a time. Use ddplaunch --inject=..."};
}
inline Error fault_without_data_error(const std::string& operation, std::uint64_t number) {
  return {ErrorKind::invalid_argument, "the fault cannot be injected: " + operation + " #" + std::to_string(number) +
                                           " has no data. Choose another call, or kind=skip or swap."};
}

}  // namespace ddp::internal

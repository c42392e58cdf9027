// All errors of the backends, except those about GPUs, and the reasons why a backend cannot be used.
#pragma once

#include <ddp/error.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ddp::internal {

// Ranks that are lost or late. Each error names the rank, if it is known.

// `cause` is the operation's failure that made the group abort. It is empty if the program aborted the group.
inline Error aborted_error(const std::string& cause = "") {
  return {ErrorKind::aborted,
          "the process group was aborted" + (cause.empty() ? "" : ", because an operation failed: " + cause)};
}

// `failed` is true if the rank reported a failure; else it has exited or left the group.
inline Error gone_error(int rank, bool failed) {
  return {ErrorKind::peer_lost,
          "rank " + std::to_string(rank) +
              (failed ? " has failed in this or an earlier operation" : " has exited or left the group"),
          rank};
}

inline void order(std::vector<int>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

// `ranks` holds one or more ranks that have not taken part, in any order.
inline Error late_error(std::vector<int> ranks, std::chrono::milliseconds timeout) {
  order(ranks);
  return {ErrorKind::timeout, base::ranks_text(ranks) + " did not take part within " + base::human_duration(timeout),
          ranks.front()};
}

// Does the same if this rank waits for ranks of other nodes, which may in turn wait for the ranks behind them.
inline Error late_nodes_error(std::vector<int> ranks, std::chrono::milliseconds timeout) {
  order(ranks);
  if (ranks.size() == 1) return late_error(std::move(ranks), timeout);
  return {ErrorKind::timeout, "some of ranks " + base::rank_list(ranks) +
                                  ", on other nodes, did not take part within " + base::human_duration(timeout)};
}

// Does the same if the backend does not know which rank is late.
inline Error unknown_late_error(std::chrono::milliseconds timeout, const std::string& backend) {
  return {ErrorKind::timeout,
          "a rank did not take part within " + base::human_duration(timeout) + " (" + backend + ")"};
}

// `error` is that of a rank which took part before, so it may be waiting itself.
inline Error late_behind_nodes_error(const Error& error) {
  return {ErrorKind::timeout, std::string(error.what()) + ", or waits for ranks of other nodes"};
}

inline Error not_connected_error(std::chrono::milliseconds timeout) {
  return {ErrorKind::timeout, "the ranks could not all connect within " + base::human_duration(timeout)};
}

// Buffers of two ranks that do not fit.

inline Error sent_bytes_error(int rank, std::uint64_t sent, std::uint64_t expected) {
  return {ErrorKind::mismatch,
          "rank " + std::to_string(rank) + " sends " + base::counted(static_cast<std::int64_t>(sent), "byte") +
              ", but this rank has a buffer for " + std::to_string(expected),
          rank};
}
inline Error sent_data_error(int rank, const std::string& sent, const std::string& expected) {
  return {ErrorKind::mismatch,
          "rank " + std::to_string(rank) + " sends " + sent + ", but this rank receives " + expected, rank};
}

// The choice of a backend

inline Error other_request_error(const std::string& requested, std::size_t rank, const std::string& other) {
  return {ErrorKind::mismatch, "rank 0 requests backend '" + requested + "', but rank " + std::to_string(rank) +
                                   " requests '" + other + "'. Set DDP_BACKEND to the same value on all ranks."};
}
inline Error unknown_backend_error(const std::string& name, const std::vector<std::string>& known) {
  const auto nearest = base::nearest_match(name, known);
  return {ErrorKind::invalid_argument, "unknown backend '" + name + "'." +
                                           (nearest ? " Did you mean " + *nearest + "?" : "") +
                                           " Backends: " + base::join(known, ", ") + "."};
}
inline Error malformed_offer_error(bool may_be_other_version) {
  return {ErrorKind::mismatch, std::string("a rank sent a malformed backend offer") +
                                   (may_be_other_version ? ", or runs another version of ddplaunch" : "")};
}
// `reason` is why the only backend does not work, or why each of several does not.
inline Error no_backend_error(const std::string& requested, bool is_one, const std::string& reason) {
  return {ErrorKind::unavailable,
          (is_one ? "backend " + requested + " does not work here: "
                  : "none of the backends " + requested + " works here: ") +
              reason + ". Without --backend (DDP_BACKEND), the runtime uses the best backend that works."};
}
inline std::string same_gpu_text(std::size_t one, std::size_t other, const std::string& device) {
  return "ranks " + std::to_string(one) + " and " + std::to_string(other) + " have the same GPU (" + device + ")";
}
inline std::string not_built_text(const std::string& backend) {
  return "this build has no " + backend + " backend";
}
inline std::string no_plugin_text(const std::string& path) {
  return path + " is not a backend of ddplaunch";
}
inline std::string other_plugin_text(const std::string& path, int abi, int own_abi) {
  return path + " belongs to another version of ddplaunch (ABI " + std::to_string(abi) + ", not " +
         std::to_string(own_abi) + ")";
}
inline Error no_gpu_memory_error(const std::string& backend) {
  return {ErrorKind::unavailable, "backend " + backend + " has no GPU memory; use nccl"};
}

// Gloo. `text` is that of Gloo's exception.

inline Error gloo_unreachable_error(const std::string& text) {
  return {
      ErrorKind::peer_lost,
      "the network between the two ranks does not respond, and the kernel closed the connection (gloo: " + text + ")"};
}
inline Error gloo_late_error(const std::string& text) {
  return {ErrorKind::timeout, "a rank did not take part in time (gloo: " + text + ")"};
}
inline Error gloo_broken_error(const std::string& text) {
  return {ErrorKind::peer_lost, "it has exited or given up, because a connection broke (gloo: " + text + ")"};
}
inline Error gloo_unavailable_error(const std::string& text) {
  return {ErrorKind::unavailable, "gloo: " + text + " (if GLOO_SOCKET_IFNAME is set, is it an interface here?)"};
}
inline Error gloo_lost_error(const Error& failure, int rank) {
  return {failure.kind(), "rank " + std::to_string(rank) + " is lost: " + failure.what(), rank};
}

// MPI

inline Error mpi_error(const std::string& action, const std::string& reason) {
  return {ErrorKind::internal, "MPI cannot " + action + " (" + reason + ")"};
}
inline Error mpi_truncated_error() {
  return {ErrorKind::mismatch,
          "another rank sends more than fits into the buffer of this rank. Check that all ranks send and expect the "
          "same counts."};
}
inline Error mpi_threads_error() {
  return {ErrorKind::unavailable,
          "MPI was initialized without full thread support. Call MPI_Init_thread with MPI_THREAD_MULTIPLE, or let "
          "ddp::init() initialize MPI. (This MPI may have been built without thread support.)"};
}
inline Error mpi_world_error(int rank, int size, int expected_rank, int expected_size) {
  return {ErrorKind::mismatch, "MPI reports rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                   ", but the environment sets rank " + std::to_string(expected_rank) + " of " +
                                   std::to_string(expected_size) +
                                   ". Start the program with mpirun, not with ddplaunch, and unset RANK."};
}

}  // namespace ddp::internal

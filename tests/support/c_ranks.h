// Runs ranks that use the C interface as threads of this process.
#pragma once

#include <ddp/c.h>

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv is POSIX

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/deadline.h"
#include "support/require.h"
#include "support/temporary_directory.h"

namespace ddp::test {

// Requires this status and, if it is an error, a text with all these words. Any thread may call it.
inline void require_status(int status, int expected, const std::vector<std::string>& words = {}) {
  const std::string text = expected == DDP_OK && status == DDP_OK ? "" : ddp_last_error();
  require(status == expected,
          "the status is " + std::string(ddp_status_name(status)) + ", not " + ddp_status_name(expected) + ": " + text);
  for (const std::string& word : words) {
    require(text.find(word) != std::string::npos, "'" + word + "' is not in the text: " + text);
  }
}

// Makes a world of one rank, which ends with this object.
class CWorldOfOne {
 public:
  CWorldOfOne() {
    ::setenv("DDP_QUIET", "1", 1);
    require_status(ddp_init(nullptr, &group_), DDP_OK);
  }
  ~CWorldOfOne() { ddp_group_destroy(group_); }
  CWorldOfOne(const CWorldOfOne&) = delete;
  CWorldOfOne& operator=(const CWorldOfOne&) = delete;

  ddp_group* group() const { return group_; }

 private:
  ddp_group* group_ = nullptr;
};

// Calls `body` with its world, on one thread per rank. Rethrows the exception of the first rank that has thrown one.
inline void run_c_ranks(int size, const std::function<void(ddp_group* world, int rank)>& body) {
  ::setenv("DDP_QUIET", "1", 1);
  const TemporaryDirectory directory;
  const std::string method = "file://" + directory.path() + "/store";
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ddp_group* world = nullptr;
      try {
        ddp_init_options options = DDP_INIT_OPTIONS_INIT;
        options.backend = "cpu";
        options.init_method = method.c_str();
        options.timeout_ms = std::chrono::milliseconds(kPatience).count();
        options.rank = rank;
        options.world_size = size;
        require_status(ddp_init(&options, &world), DDP_OK);
        body(world, rank);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
        if (world != nullptr) ddp_abort(world);
      }
      ddp_group_destroy(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace ddp::test

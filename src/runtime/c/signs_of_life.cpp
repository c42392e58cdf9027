// Implements the signs of life of <ddp/c.h>.
#include <ddp/progress.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/c/boundary.h"
#include "runtime/c/c_call.h"
#include "runtime/c/handles.h"

using namespace ddp::internal;

namespace {

static_assert(static_cast<int>(ddp::Phase::starting) == DDP_PROGRESS_STARTING &&
              static_cast<int>(ddp::Phase::connected) == DDP_PROGRESS_CONNECTED &&
              static_cast<int>(ddp::Phase::rendezvous) == DDP_PROGRESS_RENDEZVOUS &&
              static_cast<int>(ddp::Phase::communicator) == DDP_PROGRESS_COMMUNICATOR &&
              static_cast<int>(ddp::Phase::training) == DDP_PROGRESS_TRAINING &&
              static_cast<int>(ddp::Phase::evaluation) == DDP_PROGRESS_EVALUATION &&
              static_cast<int>(ddp::Phase::checkpoint) == DDP_PROGRESS_CHECKPOINT &&
              static_cast<int>(ddp::Phase::data_loading) == DDP_PROGRESS_DATA_LOADING &&
              static_cast<int>(ddp::Phase::finishing) == DDP_PROGRESS_FINISHING &&
              static_cast<int>(ddp::Phase::done) == DDP_PROGRESS_DONE);

// This is 31 years, as in ddp_page.h. Later moments cannot be expressed in nanoseconds.
constexpr int64_t kMostSeconds = 1'000'000'000;

}  // namespace

int ddp_progress_heartbeat() {
  return at_boundary([] { ddp::heartbeat(); });
}

int ddp_progress_should_stop(int32_t* stop) {
  return at_boundary([&] {
    if (stop == nullptr) refuse("ddp_progress_should_stop", "stop is NULL");
    *stop = ddp::should_stop() ? 1 : 0;
  });
}

int ddp_progress_report(int64_t done, int64_t total) {
  return at_boundary([&] {
    if (done < 0 || total < 0) refuse("ddp_progress_report", "done or total is negative");
    ddp::report_progress(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  });
}

int ddp_progress_report_values(int64_t done, int64_t total, size_t count, const char* const* names,
                               const double* values) {
  return at_boundary([&] {
    const char* const function = "ddp_progress_report_values";
    if (done < 0 || total < 0) refuse(function, "done or total is negative");
    if (count > 0 && (names == nullptr || values == nullptr)) refuse(function, "names or values is a null pointer");
    std::vector<ddp::ProgressValue> shown;
    for (size_t i = 0; i < count; ++i) {
      if (names[i] == nullptr) refuse(function, "names[" + std::to_string(i) + "] is a null pointer");
      shown.push_back({names[i], values[i]});
    }
    ddp::progress(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total), shown);
  });
}

int ddp_progress_extend(int64_t seconds) {
  return at_boundary([&] {
    if (seconds < 0) refuse("ddp_progress_extend", "seconds is " + std::to_string(seconds) + ", which is negative");
    ddp::request_more_time(std::chrono::seconds(std::min(seconds, kMostSeconds)));
  });
}

int ddp_progress_begin(int32_t phase, const char* name, ddp_progress** progress) {
  return at_boundary([&] {
    const ddp::CallSite site = take_call_site();
    require_output("ddp_progress_begin", "progress", progress);
    require_value("ddp_progress_begin", "phase", phase, "ddp_progress_phase", DDP_PROGRESS_DONE);
    const auto known = static_cast<ddp::Phase>(phase);
    *progress = handles().phases.add(std::make_shared<ddp::PhaseScope>(known, name == nullptr ? "" : name, site));
  });
}

int ddp_progress_end(ddp_progress* progress) {
  return at_boundary([&] {
    if (progress != nullptr) handles().phases.take("ddp_progress_end", progress);
  });
}

// Makes this process a worker in whose program a test plays NCCL.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/record_ring.h"
#include "launcher/run/ranks/worker_page.h"
#include "support/catch.h"
#include "support/nccl_player.h"

namespace ddp::test {

inline constexpr int kRanks = 4;

// The process is one worker. The plug-in opens its page at the first communicator.
struct NcclWorker {
  launcher::WorkerPage page{1, 1, 0};
  launcher::RecordRing ring{wire::RecordMode::all, 1};

  NcclWorker() {
    ::setenv("DDP_PAGE_FD", std::to_string(page.descriptor()).c_str(), 1);
    ::setenv("DDP_RECORD_FD", std::to_string(ring.descriptor()).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  }
  wire::StatusPageLayout& memory() const { return const_cast<wire::StatusPageLayout&>(*page.layout()); }

  std::optional<launcher::GroupView> group(std::uint64_t id) const {
    const launcher::PageView view = page.view(0);
    const auto found = std::ranges::find(view.groups, id, &launcher::GroupView::identity);
    return found == view.groups.end() ? std::nullopt : std::optional(*found);
  }
  launcher::RankRecords take_records() {
    const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    return ring.take(page.layout(), static_cast<std::uint64_t>(now), false);
  }
  std::vector<launcher::CallView> calls(std::uint64_t id) const {
    const auto shown = group(id);
    return shown ? page.calls(shown->place) : std::vector<launcher::CallView>();
  }
};

inline NcclWorker& worker() {
  static NcclWorker the_worker;
  return the_worker;
}

inline std::uint64_t new_id() {
  static std::uint64_t last = 0x1234567800000000;
  return ++last;
}

inline int any_version() {
  return GENERATE(range(1, kNewestNcclProfiler + 1));
}

inline NcclPlayer played(int version) {
  worker();
  return {DDP_NCCL_PROFILER, version};
}

}  // namespace ddp::test

// Measures what the views of a job cost the launcher: samples, snapshots, and the use of processes. Prints JSON.
//
//   snapshot_bench [RANKS …]
//
// In each sample every rank has finished a step with four collectives, which is the most expensive case.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/run/ranks/usage_watch.h"
#include "launcher/see/view/progress_line.h"
#include "launcher/see/view/snapshot_builder.h"
#include "support/made_picture.h"

namespace {

using namespace ddp::launcher;
using Clock = std::chrono::steady_clock;

constexpr auto kInterval = std::chrono::milliseconds(50);

std::vector<RankView> views_of(int ranks) {
  std::vector<RankView> views(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    RankView& view = views[static_cast<std::size_t>(rank)];
    view.rank = rank;
    view.pid = 100 + rank;
    view.page.is_written = true;
    view.page.phase = RankPhase::training;
    for (const std::uint64_t identity : {1, 2}) {
      view.page.groups.push_back({.name = "group", .rank = rank, .size = ranks, .identity = identity});
      view.arrivals.emplace_back(16);
    }
  }
  return views;
}

void advance(std::vector<RankView>& views, std::uint64_t now) {
  for (RankView& view : views) {
    ++view.page.steps;
    view.page.progress_done = view.page.steps;
    view.page.progress_total = 1'000'000;
    for (std::size_t i = 0; i < view.page.groups.size(); ++i) {
      GroupView& group = view.page.groups[i];
      group.called = group.finished = group.called + 4;
      view.arrivals[i][group.called % 16] = {group.called, now};
    }
  }
}

RankRecords records_of(int rank) {
  RankRecords records{rank, "", 0, 0, {{}, {1, "group", 2}}, {"", "bucket 0"}, {}};
  for (std::uint32_t i = 1; i <= 8; ++i) {
    records.records.push_back({ddp::wire::RecordKind::collective, 0, 1, 1, i, 10, 20, std::uint64_t{1} << 20});
  }
  return records;
}

// Returns the microseconds of one call.
template <typename Function>
double microseconds(int calls, Function function) {
  double sum = 0;
  for (int i = 0; i < calls; ++i) sum += function();
  return sum / calls;
}

double time_of(const auto& function) {
  const auto begin = Clock::now();
  function();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void measure(int ranks) {
  constexpr int kCalls = 200;
  std::vector<RankView> views = views_of(ranks);
  std::uint64_t now = 1'000'000'000;
  SnapshotBuilder builder({}, now);
  builder.begin_attempt({.world_size = ranks}, {}, true, now);
  const double sample = microseconds(kCalls, [&] {
    now += std::chrono::nanoseconds(kInterval).count();
    advance(views, now);
    return time_of([&] { builder.add(made_picture(views, kInterval, now)); });
  });
  const double records = microseconds(kCalls, [&] {
    const RankRecords some = records_of(0);
    return time_of([&] { builder.add_records(some); });
  });
  const double quiet = microseconds(kCalls, [&] {
    now += std::chrono::nanoseconds(kInterval).count();
    return time_of([&] { builder.add(unchanged_picture(kInterval, now)); });
  });
  std::size_t bytes = 0;
  const double snapshot =
      microseconds(kCalls, [&] { return time_of([&] { bytes += progress_line(builder.snapshot(now), 80).size(); }); });
  const std::vector<pid_t> self = {::getpid()};
  const double usage = microseconds(kCalls, [&] { return time_of([&] { bytes += sample_usage(self).size(); }); });
  // 20 samples with 8 records of each rank and one measurement of its processes per second, and two snapshots.
  const double per_second = 20 * (sample + ranks * records) + 2 * snapshot + ranks * usage;
  std::printf(R"({"ranks": %d, "sample_us": %.1f, "quiet_sample_us": %.1f, "records_us": %.2f, "snapshot_us": %.1f, )"
              R"("process_us": %.1f, "core_percent": %.2f})"
              "\n",
              ranks, sample, quiet, records, snapshot, usage, per_second / 1e4);
  if (bytes == 0) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {8, 64, 1024, 4096};
  for (const int ranks : sizes) measure(ranks);
  return 0;
}

// report_bench [RANKS [STEPS]]: simulates a job, and measures its history and its report. It prints one line of JSON:
// seconds for all samples, for all records, for the event and for the page, and the bytes of both. Run by hand.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "launcher/see/report/history_json.h"
#include "launcher/see/report/html/html_report.h"
#include "launcher/see/report/report_data.h"
#include "launcher/see/view/job_history.h"
#include "support/made_picture.h"
#include "wire/record_ring_layout.h"

using namespace ddp::launcher;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t kStep = 100'000'000;  // nanoseconds
constexpr std::uint64_t kSample = 50'000'000;
constexpr std::uint32_t kBuckets = 4;  // collectives per step

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

RankView view_of(int rank, int ranks) {
  RankView view;
  view.rank = rank;
  view.pid = 1000 + rank;
  if (rank >= 8) view.node = "node" + std::to_string(rank / 8);
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.groups.push_back({"world", rank, ranks, 0, 1, 1, 1});
  return view;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto steps = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 10'000);
  std::mt19937 random(1);
  Placement placement;
  placement.world_size = ranks;
  LaunchPlan plan;
  plan.host_name = "node0";
  plan.run_id = "bench";
  plan.arguments = {"train"};
  plan.workers = 8;
  JobHistory history;
  history.begin_attempt(placement, "node0", 0);

  std::vector<RankView> views;
  for (int rank = 0; rank < ranks; ++rank) views.push_back(view_of(rank, ranks));
  const Clock::time_point samples_begin = Clock::now();
  std::uint64_t samples = 0;
  for (std::uint64_t now = kSample; now <= steps * kStep; now += kSample, ++samples) {
    for (RankView& view : views) {
      // Each rank computes, waits for the slowest one, or is in a collective that all have called.
      const unsigned chance = static_cast<unsigned>(random()) % 16;
      view.page.groups[0].called = now / kStep + (chance < 8 ? 1 : 0);
      view.page.groups[0].finished = now / kStep;
      view.page.waiting_threads = chance < 6 ? 1 : 0;
      view.page.steps = now / kStep;
    }
    history.add(made_picture(views, std::chrono::nanoseconds(kSample), now));
  }
  const double sample_seconds = since(samples_begin);

  // The records come as the default (--record=steps) writes them: all steps, and an eighth of the collectives.
  const Clock::time_point records_begin = Clock::now();
  std::uint64_t records = 0;
  constexpr std::uint32_t kTogether = 16;  // steps whose records are drained at once
  for (std::uint32_t first = 0; first < steps; first += kTogether) {
    for (int rank = 0; rank < ranks; ++rank) {
      RankRecords batch{
          rank, "", 0, 50'000, {{}, {1, "world", ranks}}, {"", "bucket 0", "bucket 1", "bucket 2", "bucket 3"}, {}};
      for (std::uint32_t step = first; step < std::min(first + kTogether, steps); ++step) {
        const std::uint64_t begin = step * kStep;
        batch.records.push_back(
            {ddp::wire::RecordKind::step, 0, 0, 0, step + 1, begin, begin + kStep + random() % 5'000'000, 0});
        for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
          const std::uint32_t number = step * kBuckets + bucket;
          if (!ddp::wire::is_sampled(number)) continue;
          const std::uint64_t call = begin + bucket * 10'000'000 + random() % 1'000'000;
          batch.records.push_back({ddp::wire::RecordKind::collective, 0, 1, static_cast<std::uint16_t>(bucket + 1),
                                   number, call, begin + bucket * 10'000'000 + 2'000'000, 4 << 20});
        }
      }
      records += batch.records.size();
      history.add_records(batch);
    }
  }
  const double record_seconds = since(records_begin);

  const Clock::time_point event_begin = Clock::now();
  const std::string event = history_line(plan, "node0", history.end_attempt(steps * kStep), WallTime());
  const double event_seconds = since(event_begin);

  const JobOutcome outcome;
  const std::vector<std::string> lines = {
      job_started_line(plan, {}, WallTime()), attempt_started_line(plan, placement, WallTime()), event,
      attempt_ended_line(plan, placement, {outcome, "", {}, {}}, WallTime()),
      job_ended_line(plan, {0, 1, std::chrono::nanoseconds(steps * kStep), ""}, WallTime())};
  const Clock::time_point page_begin = Clock::now();
  const std::string page = html_report(*read_run(lines));
  const double page_seconds = since(page_begin);
  std::printf(
      "{\"ranks\": %d, \"steps\": %u, \"samples\": %llu, \"sample_seconds\": %.3f, \"microseconds_per_sample\": %.1f, "
      "\"records\": %llu, \"record_seconds\": %.3f, \"nanoseconds_per_record\": %.1f, \"event_seconds\": %.3f, "
      "\"event_bytes\": %zu, \"page_seconds\": %.3f, \"page_bytes\": %zu}\n",
      ranks, steps, static_cast<unsigned long long>(samples), sample_seconds,
      sample_seconds * 1e6 / static_cast<double>(samples), static_cast<unsigned long long>(records), record_seconds,
      record_seconds * 1e9 / static_cast<double>(records), event_seconds, event.size(), page_seconds, page.size());
  if (const char* file = std::getenv("DDP_REPORT_FILE")) {
    if (std::FILE* out = std::fopen(file, "w")) {
      std::fwrite(page.data(), 1, page.size(), out);
      std::fclose(out);
    }
  }
}

// trace_bench [RANKS [STEPS [COLLECTIVES]]]
//
// Makes the trace of a job that is computed here: RANKS ranks with STEPS steps of 100 ms, and COLLECTIVES collectives
// in each step (default 1000, 10000 and 4). In every step, another rank comes late. Prints a JSON object per line: the
// messages that carry records between nodes, then the trace with the records of --record=steps, compressed and not, and
// with those of --record=all, compressed. The times are the processor times of the launcher's thread, with the writing
// of the file.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>

#include "launcher/limits.h"
#include "launcher/run/ranks/shown_records.h"
#include "launcher/see/report/open_document.h"
#include "launcher/see/view/chrome_trace.h"

namespace ddp::bench {
namespace {

using launcher::ChromeTrace;
using launcher::OpenDocument;
using launcher::RankRecords;
using wire::RecordKind;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kStep = 100 * kMs;
constexpr std::uint32_t kStepsPerMessage = 5;  // the coordinator gets the records twice per second

struct Job {
  int ranks = 1000;
  std::uint32_t steps = 10'000;
  std::uint32_t collectives = 4;
};

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

RankRecords records_of(const Job& job, int rank, std::uint32_t first_step, bool records_all) {
  RankRecords records;
  records.rank = rank;
  records.groups = {{}, {77, "world", job.ranks}};
  records.names = {"", "bucket 0", "bucket 1", "bucket 2", "bucket 3"};
  for (std::uint32_t step = first_step; step < first_step + kStepsPerMessage && step <= job.steps; ++step) {
    const std::uint64_t begin = step * kStep;
    const bool is_late = step % static_cast<std::uint32_t>(job.ranks) == static_cast<std::uint32_t>(rank);
    const auto jitter = static_cast<std::uint64_t>(rank * 7919 % 1000);
    for (std::uint32_t i = 0; i < job.collectives; ++i) {
      const std::uint32_t number = (step - 1) * job.collectives + i + 1;
      if (!records_all && !wire::is_sampled(number)) continue;
      const std::uint64_t end = begin + 60 * kMs + i * 10 * kMs;
      const std::uint64_t called = end - (is_late && i == 0 ? 5 * kMs : 8 * kMs) + jitter;
      records.records.push_back(
          {RecordKind::collective, 0, 1, static_cast<std::uint16_t>(1 + i % 4), number, called, end, 25'000'000});
    }
    records.records.push_back({RecordKind::step, 0, 0, 0, step, begin, begin + kStep - jitter, 0});
  }
  return records;
}

void run(const Job& job, bool records_all, bool is_compressed) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "trace_bench.json").string() + (is_compressed ? ".gz" : "");
  auto document = OpenDocument::open(path, path);
  if (!document) {
    std::fprintf(stderr, "%s\n", document.error().message.c_str());
    std::exit(1);
  }
  ChromeTrace trace({"0", "bench", "bench", "", 0, !records_all});
  double seconds = 0;
  std::size_t count = 0;
  bool is_complete = true;
  for (std::uint32_t step = 1; step <= job.steps && is_complete; step += kStepsPerMessage) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      const RankRecords records = records_of(job, rank, step, records_all);
      count += records.records.size();
      const double before = processor_seconds();
      trace.add_records(records, (step + kStepsPerMessage) * kStep);
      if (trace.size() >= limits::kTraceBuffer) is_complete = !document.value()->add(trace.take(), trace.ending());
      seconds += processor_seconds() - before;
    }
    trace.advance((step + kStepsPerMessage) * kStep);
    is_complete = is_complete && document.value()->size() < limits::kTraceBytes;
  }
  const double before = processor_seconds();
  document.value()->close(trace.take(), trace.ending());
  seconds += processor_seconds() - before;
  std::printf(
      R"({"benchmark": "trace", "ranks": %d, "steps": %u, "collectives": %u, "record": "%s", "compressed": %s, )"
      R"("complete": %s, "records": %zu, "bytes": %llu, "seconds": %.2f, "ns_per_record": %.0f})"
      "\n",
      job.ranks, job.steps, job.collectives, records_all ? "all" : "steps", is_compressed ? "true" : "false",
      is_complete ? "true" : "false", count, static_cast<unsigned long long>(document.value()->size()), seconds,
      seconds / static_cast<double>(count) * 1e9);
  std::fflush(stdout);
  std::filesystem::remove(path);
}

// Measures the way of records from a node to the coordinator, without the network.
void run_messages(const Job& job) {
  double write = 0;
  double read = 0;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (std::uint32_t step = 1; step <= 500; step += kStepsPerMessage) {
    launcher::ShownRecords shown;
    for (int rank = 0; rank < 8; ++rank) shown.ranks.push_back(records_of(job, rank, step, /*records_all=*/true));
    for (const launcher::ShownRecords& message : launcher::divide_records(shown)) {
      const double begin = processor_seconds();
      const std::string text = launcher::show_records(message);
      const double middle = processor_seconds();
      const launcher::ShownRecords again = launcher::read_records(text);
      read += processor_seconds() - middle;
      write += middle - begin;
      bytes += text.size();
      for (const RankRecords& rank : again.ranks) count += rank.records.size();
    }
  }
  const auto records = static_cast<double>(count);
  std::printf(R"({"benchmark": "messages", "records": %zu, "bytes_per_record": %.1f, "ns_to_write": %.0f, )"
              R"("ns_to_read": %.0f})"
              "\n",
              count, static_cast<double>(bytes) / records, write / records * 1e9, read / records * 1e9);
  std::fflush(stdout);
}

int number(int argc, char** argv, int index, int fallback) {
  return argc > index ? std::atoi(argv[index]) : fallback;
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  using ddp::bench::number;
  const ddp::bench::Job job{number(argc, argv, 1, 1000), static_cast<std::uint32_t>(number(argc, argv, 2, 10'000)),
                            static_cast<std::uint32_t>(number(argc, argv, 3, 4))};
  ddp::bench::run_messages(job);
  ddp::bench::run(job, /*records_all=*/false, /*is_compressed=*/true);
  ddp::bench::run(job, /*records_all=*/false, /*is_compressed=*/false);
  ddp::bench::run(job, /*records_all=*/true, /*is_compressed=*/true);
}

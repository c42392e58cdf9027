// ChromeTrace turns what the ranks record and what happens to the job into a trace that Perfetto and Chrome show. It is
// a value: times come in, and text comes out.
//
// A rank is a process of the trace, and its number is the id. Its threads are the kinds of what it does. A process of
// its own contains the events of the job and the counters.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/rank_records.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/see/view/collective_arrivals.h"
#include "launcher/see/view/open_spans.h"
#include "launcher/see/view/span_lanes.h"
#include "launcher/see/view/step_rate.h"
#include "launcher/see/view/trace_text.h"
#include "launcher/see/view/training_curves.h"

namespace ddp::launcher {

// The numbers of the threads of a rank. Collectives that cross each other have further rows.
enum class TraceThread : std::uint8_t { steps, collectives, gpu, phases, waits, more_collectives };
inline constexpr int kTraceJobProcess = 1'000'000'000;
inline constexpr int kCollectiveRows = 4;

struct TraceJob {
  std::string version;  // of ddplaunch
  std::string run_id;
  std::string program;
  std::string started;       // time of day
  std::uint64_t origin = 0;  // CLOCK_MONOTONIC at the start of the job, nanoseconds
  bool is_sampled = false;   // only a sample of the collectives is recorded
};

// All times are CLOCK_MONOTONIC of this node in nanoseconds.
class ChromeTrace {
 public:
  explicit ChromeTrace(TraceJob job);

  // Shows a moment of the job, in all rows. The category is one word, such as "failure".
  void mark(std::string_view category, const std::string& text, std::uint64_t now);
  void begin_attempt(int number, int world_size, std::uint64_t now);
  // Shows what the ranks had begun and not ended. After a success, these are phases only: what the last samples showed
  // of collectives is old.
  void end_attempt(bool has_succeeded, const std::string& how, std::uint64_t now);
  void add(const Picture& picture);
  // Shows the reported values when they change, and the rest once per second.
  void add(const TrainingMoment& moment, std::uint64_t now);
  // Shows what these ranks are doing.
  void add_ranks(std::span<const RankView> ranks, std::uint64_t now);
  void add_records(const RankRecords& records, std::uint64_t now);

  std::size_t size() const { return text_.size(); }
  // Returns the text since the last call. The first one begins the document.
  std::string take();
  // Returns the text that ends the document after all that was taken. More text may be taken later.
  std::string ending() const;

 private:
  struct Rank {
    explicit Rank() : lanes{SpanLanes(), SpanLanes(kCollectiveRows), SpanLanes(), SpanLanes(), SpanLanes()} {}

    std::array<SpanLanes, 5> lanes;  // by thread
    int rows = 1;                    // rows of collectives that have a name
    pid_t pid = 0;
    std::vector<OpenSpan> open;
    std::optional<std::uint64_t> ended_at;
    // The last collective of each group that was recorded, by the group's id.
    std::unordered_map<std::string, std::uint32_t> recorded;
    std::uint64_t dropped = 0;
  };
  // Contains the names of a message of records as JSON.
  struct Names {
    const RankRecords& records;
    std::vector<std::string> groups;
    std::unordered_map<std::uint32_t, std::string> calls;
  };
  struct Slice {
    TraceThread thread;
    std::string_view name;  // JSON
    std::string_view category;
    std::uint64_t begin;
    std::uint64_t end;
  };

  void count_bytes(std::uint64_t now);
  Rank& rank_of(int number);
  void name_process(int process, const std::string& name, std::uint64_t order);
  void name_thread(int process, int thread, std::string_view name, std::uint64_t order);
  void label(int number, Rank& rank, const RankView& view);
  std::optional<int> place(int number, Rank& rank, TraceThread thread, std::uint64_t begin, std::uint64_t end);
  template <typename Args>
  std::optional<int> add_slice(int number, Rank& rank, Slice slice, const Args& args);
  void add_record(Rank& rank, const Record& record, Names& names, std::uint64_t now);
  void add_collective(Rank& rank, const Record& record, Names& names, std::uint64_t now);
  void add_arrows(const CollectiveId& id, std::vector<CollectiveArrival> arrivals);
  void add_arrow(std::uint64_t id, const CollectiveArrival& from, const CollectiveArrival& to);
  void count(int thread, std::string_view name, std::string_view unit, std::uint64_t number, std::uint64_t at);
  void show_number(const std::string& name, std::string_view unit, double number, std::uint64_t at);
  void end_open_spans(bool has_succeeded, std::uint64_t now);

  const TraceJob job_;
  TraceText text_;
  bool has_begun_ = false;
  std::map<int, Rank> ranks_;
  CollectiveArrivals arrivals_;
  std::uint64_t next_async_ = 1;
  std::map<std::uint64_t, std::uint64_t> bytes_;  // bytes of collectives by the second in which they ended
  std::uint64_t next_second_ = 0;                 // the first one that is not counted yet
  std::uint64_t shown_bytes_ = 0;
  std::optional<std::uint64_t> shown_waiting_;
  StepRate rate_{std::chrono::seconds(2)};
  std::uint64_t shown_training_at_ = 0;
  std::map<std::string, double> shown_training_;
  std::map<std::string, std::uint64_t> clock_errors_;  // by node, the latest ones
};

}  // namespace ddp::launcher

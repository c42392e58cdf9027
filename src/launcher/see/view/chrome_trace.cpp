#include "launcher/see/view/chrome_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/hash.h"
#include "wire/call_names.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
// The coordinator gets the records of other nodes later.
constexpr std::uint64_t kSecondsUntilCounted = 3;
// One of so many collectives is recorded if they are sampled: see wire::is_sampled().
constexpr std::uint64_t kSampledShare = 8;
constexpr auto kNoArgs = [](TraceText&) {};

struct ThreadName {
  TraceThread thread;
  std::string_view name;
};
constexpr std::array<ThreadName, 5> kThreads = {{{TraceThread::steps, "\"steps\""},
                                                 {TraceThread::collectives, "\"collectives\""},
                                                 {TraceThread::gpu, "\"GPU\""},
                                                 {TraceThread::phases, "\"phases\""},
                                                 {TraceThread::waits, "\"waits\""}}};

constexpr int number_of(TraceThread thread) {
  return static_cast<int>(thread);
}

// The first row of collectives is a fixed thread, and the others follow after the fixed ones.
constexpr int collective_thread(int row) {
  return row == 0 ? number_of(TraceThread::collectives) : number_of(TraceThread::more_collectives) + row - 1;
}

std::string with_name(std::string_view what, const std::string& name) {
  return json_string(std::string(what) + (name.empty() ? "" : " ('" + name + "')"));
}

}  // namespace

ChromeTrace::ChromeTrace(TraceJob job) : job_(std::move(job)), text_(job_.origin) {
  name_process(kTraceJobProcess, json_string("job " + job_.run_id), 0);
  name_thread(kTraceJobProcess, 0, "\"events\"", 0);
}

void ChromeTrace::mark(std::string_view category, const std::string& text, std::uint64_t now) {
  text_.begin('i', kTraceJobProcess, 0).name_json(json_string(text)).category(category).time(now);
  text_.member("s", "\"g\"").end();
}

void ChromeTrace::begin_attempt(int number, int world_size, std::uint64_t now) {
  arrivals_.clear();
  for (auto& [rank_number, rank] : ranks_) {
    rank.recorded.clear();
    rank.open.clear();
    rank.ended_at.reset();
  }
  mark("attempt", "attempt " + std::to_string(number) + " begins with " + std::to_string(world_size) + " ranks", now);
}

void ChromeTrace::end_attempt(bool has_succeeded, const std::string& how, std::uint64_t now) {
  end_open_spans(has_succeeded, now);
  mark("attempt", how, now);
}

void ChromeTrace::end_open_spans(bool has_succeeded, std::uint64_t now) {
  for (auto& [number, rank] : ranks_) {
    const std::uint64_t end = rank.ended_at.value_or(now);
    for (const OpenSpan& open : std::exchange(rank.open, {})) {
      const auto recorded = rank.recorded.find(open.group);
      const bool has_ended = !open.is_phase && recorded != rank.recorded.end() && recorded->second >= open.number;
      if (has_ended || open.since >= end || (has_succeeded && !open.is_phase)) continue;
      const std::string name = json_string(open.name + (has_succeeded ? "" : " (unfinished)"));
      const std::string group = json_string(open.group);
      const auto thread = open.is_phase ? TraceThread::phases : TraceThread::collectives;
      const std::string_view category = has_succeeded ? "phase" : "unfinished";
      add_slice(number, rank, {thread, name, category, open.since, end}, [&](TraceText& text) {
        if (!open.is_phase) text.begin_args().member("group", group).member("number", open.number);
      });
    }
  }
}

void ChromeTrace::add(const Picture& picture) {
  if (picture.has_news) {
    add_ranks(picture.ranks, picture.taken_at);
    const auto waiting =
        static_cast<std::uint64_t>(std::ranges::count(picture.moments, RankState::waiting, &RankMoment::state));
    if (waiting != shown_waiting_) count(1, "\"ranks waiting\"", "ranks", waiting, picture.taken_at);
    shown_waiting_ = waiting;
  }
  count_bytes(picture.taken_at);
}

void ChromeTrace::add(const TrainingMoment& moment, std::uint64_t now) {
  for (const ProgressValue& value : moment.values) show_number(value.name, "value", value.value, now);
  rate_.add(now, moment.steps);
  if (now - std::min(now, shown_training_at_) < kSecond) return;
  shown_training_at_ = now;
  if (moment.steps > 0 && !reports(moment.values, kStepsCurve)) {
    show_number(std::string(kStepsCurve), "steps/s", rate_.per_second(now), now);
  }
  const auto show_bytes = [&](std::string_view name, const std::optional<std::uint64_t>& bytes) {
    if (bytes && !reports(moment.values, name))
      show_number(std::string(name), "bytes", static_cast<double>(*bytes), now);
  };
  show_bytes(kMemoryCurve, moment.memory_bytes);
  show_bytes(kGpuMemoryCurve, moment.gpu_memory_bytes);
}

// Shows a number that has changed. All of them are on one row of the job, because a viewer tells counters apart by
// their names.
void ChromeTrace::show_number(const std::string& name, std::string_view unit, double number, std::uint64_t at) {
  const auto shown = shown_training_.find(name);
  if (!std::isfinite(number) || (shown != shown_training_.end() && shown->second == number)) return;
  shown_training_[name] = number;
  constexpr int kRow = 3;
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text_.begin('C', kTraceJobProcess, kRow).name_json(json_string(name)).time(at).begin_args();
  text_.member(unit, std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()))).end();
}

void ChromeTrace::add_ranks(std::span<const RankView> ranks, std::uint64_t now) {
  for (const RankView& view : ranks) {
    Rank& rank = rank_of(view.rank);
    if (view.pid != rank.pid) label(view.rank, rank, view);
    if (view.has_ended && !rank.ended_at) rank.ended_at = now;
    std::vector<OpenSpan> open = open_spans(view);
    keep_what_is_known(rank.open, open);
    rank.open = std::move(open);
  }
}

void ChromeTrace::add_records(const RankRecords& records, std::uint64_t now) {
  Rank& rank = rank_of(records.rank);
  rank.dropped = std::max(rank.dropped, records.dropped);
  if (!records.node.empty()) clock_errors_[records.node] = records.clock_error;
  Names names{records, {}, {}};
  for (const RecordedGroup& group : records.groups) names.groups.push_back(json_string(group.name));
  for (const Record& record : records.records) {
    const bool is_valid =
        record.group < records.groups.size() && record.name < records.names.size() && record.begin <= record.end;
    if (is_valid) add_record(rank, record, names, now);
  }
}

void ChromeTrace::add_record(Rank& rank, const Record& record, Names& names, std::uint64_t now) {
  const int number = names.records.rank;
  const std::string& name = names.records.names[record.name];
  switch (record.kind) {
    case wire::RecordKind::step:
      add_slice(
          number, rank,
          {TraceThread::steps, json_string("step " + std::to_string(record.number)), "step", record.begin, record.end},
          kNoArgs);
      return;
    case wire::RecordKind::collective:
    case wire::RecordKind::gpu:
    case wire::RecordKind::transfer:
      return add_collective(rank, record, names, now);
    case wire::RecordKind::wait:
      add_slice(number, rank, {TraceThread::waits, "\"wait\"", "wait", record.begin, record.end}, [&](TraceText& text) {
        if (record.number == 0) return;
        text.begin_args().member("group", names.groups[record.group]);
        text.member("number", std::uint64_t{record.number});
      });
      return;
    case wire::RecordKind::phase:
      add_slice(number, rank,
                {TraceThread::phases, with_name(wire::name_of(wire::kPhaseNames, record.operation), name), "phase",
                 record.begin, record.end},
                kNoArgs);
      return;
    case wire::RecordKind::none:
      return;
  }
}

void ChromeTrace::add_collective(Rank& rank, const Record& record, Names& names, std::uint64_t now) {
  const RankRecords& records = names.records;
  std::string& name = names.calls[std::uint32_t{record.operation} << 16U | record.name];
  if (name.empty()) {
    name = with_name(wire::name_of(wire::kOperationNames, record.operation), records.names[record.name]);
  }
  const bool is_gpu = record.kind == wire::RecordKind::gpu;
  const bool is_collective = record.kind == wire::RecordKind::collective;
  const std::string_view category = is_gpu ? "gpu" : is_collective ? "collective" : "transfer";
  const Slice slice{is_gpu ? TraceThread::gpu : TraceThread::collectives, name, category, record.begin, record.end};
  const auto thread = add_slice(records.rank, rank, slice, [&](TraceText& text) {
    text.begin_args().member("group", names.groups[record.group]);
    text.member("number", std::uint64_t{record.number}).member("bytes", record.bytes);
  });
  if (!is_collective) return;
  const RecordedGroup& group = records.groups[record.group];
  rank.recorded[group.name] = record.number;
  const std::uint64_t second = text_.since_origin(record.end) / kSecond;
  if (second >= next_second_) bytes_[second] += record.bytes;
  if (!thread || record.group == 0) return;
  const CollectiveId id = id_of(group, record.number);
  auto all = arrivals_.add(id, group.size, {records.rank, *thread, record.begin, record.end, records.clock_error}, now);
  if (all) add_arrows(id, std::move(*all));
}

void ChromeTrace::add_arrows(const CollectiveId& id, std::vector<CollectiveArrival> arrivals) {
  const auto lateness = lateness_of(std::move(arrivals));
  if (!lateness) return;
  for (const CollectiveArrival& waited : lateness->waited) {
    // A viewer ends a flow at its first end, so every arrow is a flow.
    add_arrow(base::mix(hash_of(id), static_cast<std::uint64_t>(waited.rank)), lateness->last, waited);
  }
}

// The arrow begins in the slice of the late rank. It ends in the slice that has waited, not before it begins.
void ChromeTrace::add_arrow(std::uint64_t id, const CollectiveArrival& from, const CollectiveArrival& to) {
  const std::uint64_t end = std::max(to.begin, std::min(from.begin, to.end));
  text_.begin('s', from.rank, from.thread).name_json("\"last\"").category("arrival").id(id).time(from.begin).end();
  text_.begin('f', to.rank, to.thread).name_json("\"last\"").category("arrival").id(id).time(end);
  text_.member("bp", "\"e\"").end();
}

// Returns the thread that shows the slice, or std::nullopt if it crosses others. Such a slice is shown alone.
template <typename Args>
std::optional<int> ChromeTrace::add_slice(int number, Rank& rank, Slice slice, const Args& args) {
  // A clock of another node that is not known well may show times before the beginning of the trace.
  slice.begin = std::max(slice.begin, job_.origin);
  slice.end = std::max(slice.end, slice.begin);
  const auto thread = place(number, rank, slice.thread, slice.begin, slice.end);
  if (thread) {
    text_.begin('X', number, *thread).name_json(slice.name).category(slice.category).time(slice.begin);
    text_.duration(slice.end - slice.begin);
    args(text_);
    text_.end();
    return thread;
  }
  const std::uint64_t id = next_async_++;
  const int own = number_of(slice.thread);
  text_.begin('b', number, own).name_json(slice.name).category(slice.category).id(id).time(slice.begin);
  args(text_);
  text_.end();
  text_.begin('e', number, own).name_json(slice.name).category(slice.category).id(id).time(slice.end).end();
  return std::nullopt;
}

std::optional<int> ChromeTrace::place(int number, Rank& rank, TraceThread thread, std::uint64_t begin,
                                      std::uint64_t end) {
  const auto row = rank.lanes[static_cast<std::size_t>(thread)].place(begin, end);
  if (!row || thread != TraceThread::collectives) return row ? std::optional(number_of(thread)) : std::nullopt;
  for (; rank.rows <= *row; ++rank.rows) {
    name_thread(number, collective_thread(rank.rows), "\"collectives (overlapping)\"",
                10 + static_cast<std::uint64_t>(rank.rows));
  }
  return collective_thread(*row);
}

void ChromeTrace::count_bytes(std::uint64_t now) {
  const std::uint64_t second = text_.since_origin(now) / kSecond;
  for (; next_second_ + kSecondsUntilCounted <= second; ++next_second_) {
    const auto entry = bytes_.find(next_second_);
    const std::uint64_t sum = entry == bytes_.end() ? 0 : entry->second * (job_.is_sampled ? kSampledShare : 1);
    if (entry != bytes_.end()) bytes_.erase(entry);
    if (std::exchange(shown_bytes_, sum) == sum) continue;
    const std::string_view name =
        job_.is_sampled ? "\"bytes reduced per second (estimate)\"" : "\"bytes reduced per second\"";
    count(2, name, "bytes", sum, job_.origin + next_second_ * kSecond);
  }
}

void ChromeTrace::count(int thread, std::string_view name, std::string_view unit, std::uint64_t number,
                        std::uint64_t at) {
  text_.begin('C', kTraceJobProcess, thread).name_json(name).time(at).begin_args().member(unit, number).end();
}

ChromeTrace::Rank& ChromeTrace::rank_of(int number) {
  const auto [entry, is_new] = ranks_.try_emplace(number);
  if (is_new) {
    name_process(number, json_string("rank " + std::to_string(number)), static_cast<std::uint64_t>(number) + 1);
    for (const ThreadName& thread : kThreads) {
      name_thread(number, number_of(thread.thread), thread.name, 10 * static_cast<std::uint64_t>(thread.thread));
    }
  }
  return entry->second;
}

void ChromeTrace::name_process(int process, const std::string& name, std::uint64_t order) {
  text_.begin('M', process, 0).name_json("\"process_name\"").begin_args().member("name", name).end();
  text_.begin('M', process, 0).name_json("\"process_sort_index\"").begin_args().member("sort_index", order).end();
}

void ChromeTrace::name_thread(int process, int thread, std::string_view name, std::uint64_t order) {
  text_.begin('M', process, thread).name_json("\"thread_name\"").begin_args().member("name", name).end();
  text_.begin('M', process, thread).name_json("\"thread_sort_index\"").begin_args().member("sort_index", order).end();
}

void ChromeTrace::label(int number, Rank& rank, const RankView& view) {
  rank.pid = view.pid;
  const std::string text = (view.node.empty() ? "" : view.node + ", ") + "pid " + std::to_string(view.pid);
  text_.begin('M', number, 0).name_json("\"process_labels\"").begin_args().member("labels", json_string(text)).end();
}

std::string ChromeTrace::take() {
  const std::string start = std::exchange(has_begun_, true) ? "" : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  return start + text_.take();
}

std::string ChromeTrace::ending() const {
  std::string errors;
  for (const auto& [node, error] : clock_errors_) {
    errors += (errors.empty() ? "" : ",") + json_string(node) + ":" + std::to_string(error);
  }
  std::string dropped;
  for (const auto& [number, rank] : ranks_) {
    if (rank.dropped == 0) continue;
    dropped += (dropped.empty() ? "\"" : ",\"") + std::to_string(number) + "\":" + std::to_string(rank.dropped);
  }
  return "\n],\"otherData\":{\"version\":" + json_string(job_.version) + ",\"run_id\":" + json_string(job_.run_id) +
         ",\"program\":" + json_string(job_.program) + ",\"started\":" + json_string(job_.started) +
         ",\"clock_error_ns\":{" + errors + "},\"dropped_records\":{" + dropped + "}}}\n";
}

}  // namespace ddp::launcher

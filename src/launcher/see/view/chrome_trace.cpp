#include "launcher/see/view/chrome_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/hash.h"
#include "base/printable.h"
#include "launcher/limits.h"
#include "wire/call_names.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

void append_number(std::string& text, std::uint64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

constexpr const char* kUnknown = "collective";

OpenSpan open_call(const RankView& rank, std::size_t group, std::uint64_t number) {
  OpenSpan span{false, kUnknown, rank.page.groups[group].name, number, rank.seen_at};
  if (group < rank.arrivals.size()) {
    const auto& arrivals = rank.arrivals[group];
    const auto arrival = std::ranges::find(arrivals, number, &Arrival::sequence);
    if (arrival != arrivals.end()) span.since = arrival->called_at;
  }
  if (group < rank.calls.size()) {
    const auto& calls = rank.calls[group];
    const auto call = std::ranges::find(calls, number, &CallView::sequence);
    if (call != calls.end() && call->called_at != 0) span.since = call->called_at;
    if (call != calls.end() && !call->what.empty()) span.name = describe(*call);
  }
  return span;
}

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

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : base::printable(text)) {
    if (c == '"' || c == '\\') json += '\\';
    if (c == '\t') {
      json += "\\t";
    } else {
      json += c;
    }
  }
  return json + '"';
}

TraceText& TraceText::begin(char kind, int process, int thread) {
  text_ += std::exchange(is_first_, false) ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
  text_ += kind;
  text_ += "\",\"pid\":";
  append_number(text_, static_cast<std::uint64_t>(process));
  text_ += ",\"tid\":";
  append_number(text_, static_cast<std::uint64_t>(thread));
  needs_comma_ = true;
  return *this;
}

TraceText& TraceText::category(std::string_view name) {
  key("cat");
  text_ += '"';
  text_ += name;
  text_ += '"';
  return *this;
}

TraceText& TraceText::time(std::uint64_t at) {
  key("ts");
  microseconds(since_origin(at));
  return *this;
}

TraceText& TraceText::duration(std::uint64_t nanoseconds) {
  key("dur");
  microseconds(nanoseconds);
  return *this;
}

TraceText& TraceText::id(std::uint64_t id) {
  key("id");
  text_ += "\"0x" + base::hex64(id) + '"';
  return *this;
}

TraceText& TraceText::member(std::string_view name, std::string_view json) {
  key(name);
  text_ += json;
  return *this;
}

TraceText& TraceText::member(std::string_view name, std::uint64_t number) {
  key(name);
  append_number(text_, number);
  return *this;
}

TraceText& TraceText::begin_args() {
  text_ += ",\"args\":{";
  has_args_ = true;
  needs_comma_ = false;
  return *this;
}

void TraceText::end() {
  if (std::exchange(has_args_, false)) text_ += '}';
  text_ += '}';
}

std::string TraceText::take() {
  return std::exchange(text_, {});
}

void TraceText::key(std::string_view key) {
  if (std::exchange(needs_comma_, true)) text_ += ',';
  text_ += '"';
  text_ += key;
  text_ += "\":";
}

// The format counts in microseconds. Fractions keep the nanoseconds exact.
void TraceText::microseconds(std::uint64_t nanoseconds) {
  append_number(text_, nanoseconds / 1000);
  const auto rest = static_cast<unsigned>(nanoseconds % 1000);
  if (rest == 0) return;
  text_ += '.';
  for (const unsigned digit : {rest / 100, rest / 10 % 10, rest % 10}) text_ += static_cast<char>('0' + digit);
}

std::vector<OpenSpan> open_spans(const RankView& rank) {
  std::vector<OpenSpan> spans;
  if (!rank.page.is_written) return spans;
  for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
    const GroupView& group = rank.page.groups[i];
    if (group.is_left || group.is_by_stack || group.called <= group.finished) continue;
    const std::uint64_t last = std::min(group.called, group.finished + limits::kTraceOpenCalls);
    for (std::uint64_t number = group.finished + 1; number <= last; ++number) {
      spans.push_back(open_call(rank, i, number));
    }
  }
  const PageView& page = rank.page;
  const bool has_phase = !is_training(page.phase) && page.phase != RankPhase::done && page.phase_since != 0;
  if (has_phase) {
    const std::string name =
        std::string(name_of(page.phase)) + (page.phase_name.empty() ? "" : " ('" + page.phase_name + "')");
    spans.push_back({true, name, "", 0, page.phase_since});
  }
  return spans;
}

void keep_what_is_known(const std::vector<OpenSpan>& known, std::vector<OpenSpan>& spans) {
  for (OpenSpan& span : spans) {
    const auto same = std::ranges::find_if(known, [&](const OpenSpan& other) {
      return !span.is_phase && !other.is_phase && other.number == span.number && other.group == span.group;
    });
    if (same == known.end()) continue;
    span.since = std::min(span.since, same->since);
    if (span.name == kUnknown) span.name = same->name;
  }
}

std::optional<int> SpanLanes::place(std::uint64_t begin, std::uint64_t end) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].place({begin, end})) return static_cast<int>(i);
  }
  return std::nullopt;
}

bool SpanLanes::Lane::place(const Span& span) {
  const auto crosses = [&](const Span& other) {
    const bool is_apart = span.end <= other.begin || span.begin >= other.end;
    const bool is_within = span.begin >= other.begin && span.end <= other.end;
    const bool is_around = span.begin <= other.begin && span.end >= other.end;
    return !is_apart && !is_within && !is_around;
  };
  if (span.begin < latest_end && (span.begin < forgotten_until || std::ranges::any_of(spans, crosses))) return false;
  add(span);
  return true;
}

void SpanLanes::Lane::add(const Span& span) {
  latest_end = std::max(latest_end, span.end);
  if (spans.size() < limits::kTraceSpans) return spans.push_back(span);
  forgotten_until = std::max(forgotten_until, spans[next].end);
  spans[next] = span;
  next = (next + 1) % spans.size();
}

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

#include "launcher/see/explain/watchdog_lines.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kTimeout = "Watchdog caught collective operation timeout: WorkNCCL(";
constexpr std::array<std::string_view, 10> kWords = {
    "Watchdog caught collective operation timeout: ",  // 2.1 and newer
    "ast enqueued NCCL work: ",                        // 2.3 to 2.5, and the line of a dump
    "detected by watchdog at work",                    // 2.4 and newer
    // The report of TORCH_NCCL_DESYNC_DEBUG:
    "Timeout at collective: ",
    "are the lagging ranks that caused this timeout",
    "ed collective #",
    "started ranks:",
    "finished ranks:",
    "] started ",
    "] finished ",
};

constexpr std::int64_t kLargestNumber = std::int64_t{1} << 53;
constexpr int kLargestRank = 10'000'000;
constexpr std::size_t kMostReports = 4096;
constexpr std::size_t kMostReportedRanks = 100'000;
constexpr std::size_t kMostCalls = 1000;  // of a rank in a group

struct OperationName {
  std::string_view op_type;
  std::string_view name;
};
constexpr std::array kOperations = {
    OperationName{"ALLREDUCE", "all_reduce"},
    OperationName{"ALLREDUCE_COALESCED", "allreduce_coalesced"},
    OperationName{"ALLGATHER", "all_gather"},
    OperationName{"_ALLGATHER_BASE", "_all_gather_base"},
    OperationName{"ALLGATHER_COALESCED", "all_gather_into_tensor_coalesced"},
    OperationName{"REDUCE_SCATTER", "reduce_scatter"},
    OperationName{"_REDUCE_SCATTER_BASE", "_reduce_scatter_base"},
    OperationName{"ALLTOALL", "all_to_all"},
    OperationName{"ALLTOALL_BASE", "all_to_all"},
};

// Returns the text behind the words, or nothing.
std::optional<std::string_view> behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : std::optional(text.substr(at + words.size()));
}

std::optional<std::int64_t> number_at(std::string_view text, std::int64_t largest = kLargestNumber) {
  const std::size_t end = text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0);
  return base::parse_integer(text.substr(0, end), -1, largest);
}

std::optional<std::int64_t> number_behind(std::string_view text, std::string_view words) {
  const auto rest = behind(text, words);
  return rest ? number_at(*rest) : std::nullopt;
}

// Reads "[0, 2, 3] rest", and leaves the rest.
std::vector<int> take_ranks(std::string_view& text) {
  std::vector<int> ranks;
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return ranks;
  for (const std::string& word : base::words(text.substr(open + 1, close - open - 1), ", ")) {
    const auto rank = base::parse_integer(word, 0, kLargestRank);
    if (!rank || ranks.size() >= kMostReportedRanks) return {};
    ranks.push_back(static_cast<int>(*rank));
  }
  text.remove_prefix(close + 1);
  return ranks;
}

// -1 says that there was no such call. PyTorch 2.3 prints any large number then.
std::optional<std::int64_t> count(std::optional<std::int64_t> number, std::int64_t largest) {
  if (!number || *number > largest) return std::nullopt;
  return std::max<std::int64_t>(*number, 0);
}

// Adds what is known about a call. A time-out is never taken back.
void merge(RecordedCall& call, const RecordedCall& other) {
  if (call.operation.empty()) call = other;
  if (other.state == CallState::timed_out) call.state = CallState::timed_out;
}

}  // namespace

std::span<const std::string_view> watchdog_words() {
  return kWords;
}

bool may_be_watchdog_line(std::string_view line) {
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return line.find(word) != std::string_view::npos; });
}

std::string operation_name(std::string_view op_type) {
  for (const OperationName& one : kOperations) {
    if (one.op_type == op_type) return std::string(one.name);
  }
  std::string name(op_type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return name;
}

WatchdogLines::Prefix WatchdogLines::prefix_of(std::string_view line) {
  Prefix prefix;
  const std::size_t begin = line.find("[PG ");
  const std::size_t end = begin == std::string_view::npos ? begin : line.find(" Rank ", begin);
  if (end == std::string_view::npos) {
    if (const auto rank = behind(line, "[Rank ")) {
      if (const auto number = number_at(*rank, kLargestRank)) prefix.rank_of_group = static_cast<int>(*number);
    }
    return prefix;
  }
  if (const auto number = number_at(line.substr(end + 6), kLargestRank)) {
    prefix.rank_of_group = static_cast<int>(*number);
  }
  std::string_view name = line.substr(begin + 4, end - begin - 4);
  const auto unique = behind(name, "GUID ");
  if (unique) name = *unique;
  const std::size_t bracket = name.find('(');
  if (bracket != std::string_view::npos && name.ends_with(')')) {
    prefix.description = name.substr(bracket + 1, name.size() - bracket - 2);
    name = name.substr(0, bracket);
  }
  prefix.group = base::trimmed(name);
  if (prefix.description == "default_pg") prefix.group = kDefaultGroup;
  prefix.is_short = !unique && bracket == std::string_view::npos;
  return prefix;
}

void WatchdogLines::add(std::optional<int> rank, std::string_view line) {
  if (!may_be_watchdog_line(line)) return;
  if (const auto tag = behind(line.substr(0, 64), "[rank")) {
    const auto number = number_at(*tag, kLargestRank);
    if (number && *number >= 0) rank = static_cast<int>(*number);
  }
  const Prefix prefix = prefix_of(line);
  if (!rank && prefix.group == kDefaultGroup) rank = prefix.rank_of_group;
  std::string key = rank ? std::to_string(*rank) : "";
  if (!rank && prefix.rank_of_group) key = prefix.group + "/" + std::to_string(*prefix.rank_of_group);
  if (add_desync(key, line)) return;
  Process& process = processes_[key];
  process.rank = rank.value_or(-1);
  if (prefix.group.empty()) process.rank_without_group = prefix.rank_of_group;
  if (line.find("detected by watchdog at work") != std::string_view::npos ||
      line.find("dump signal") != std::string_view::npos) {
    is_newer_than_2_3_ = true;
  }
  if (const auto work = behind(line, kTimeout)) add_call(process, prefix, *work);
  add_status(process, prefix, line);
}

void WatchdogLines::add_call(Process& process, const Prefix& prefix, std::string_view work) {
  RecordedCall call;
  const auto number = number_behind(work.substr(0, work.find(')')), "SeqNum=");
  const auto type = behind(work, "OpType=");
  if (!number || *number < 0 || !type) return;
  call.number = *number;
  const std::string_view op_type = type->substr(0, type->find_first_of(",)"));
  call.operation = operation_name(op_type.substr(0, 64));
  call.is_p2p = op_type == "SEND" || op_type == "RECV" || op_type == "RECVANYSOURCE" || op_type == "COALESCED";
  call.numel_in = number_behind(work, "NumelIn=");
  call.state = CallState::timed_out;
  if (prefix.group.empty()) {
    if (process.without_group.size() < kMostCalls) process.without_group[call.number] = call;
    return;
  }
  Status& status = process.groups[prefix.group];
  status.prefix = prefix;
  if (status.calls.size() < kMostCalls) merge(status.calls[call.number], call);
  process.without_group.erase(call.number);
}

void WatchdogLines::add_status(Process& process, const Prefix& prefix, std::string_view line) {
  auto enqueued = number_behind(line, "ast enqueued NCCL work: ");
  if (!enqueued) enqueued = number_behind(line, "PG status: last enqueued work: ");
  auto failed = number_behind(line, "Timeout at NCCL work: ");
  if (!failed) failed = number_behind(line, "detected by watchdog at work: ");
  if (!failed) failed = number_behind(line, "detected by watchdog at work sequence id: ");
  if (prefix.group.empty() || (!enqueued && !failed)) return;
  Status& status = process.groups[prefix.group];
  status.prefix = prefix;
  if (enqueued) {  // a terminal may have wrapped the line before it
    enqueued = count(enqueued, kLargestNumber);
    auto completed = number_behind(line, "last completed NCCL work: ");
    if (!completed) completed = number_behind(line, "last completed work: ");
    raise_to(status.enqueued, enqueued);
    raise_to(status.completed, count(completed, *enqueued));
  }
  if (!failed || *failed < 0 || (enqueued && *failed > *enqueued) || status.calls.size() >= kMostCalls) return;
  RecordedCall& call = status.calls[*failed];
  call.number = *failed;
  if (call.state == CallState::unknown) call.state = CallState::enqueued;
  const auto known = process.without_group.find(*failed);  // the previous line has said what it was
  if (known == process.without_group.end()) return;
  merge(call, known->second);
  process.without_group.erase(known);
}

bool WatchdogLines::add_desync(const std::string& process, std::string_view line) {
  if (const auto call = behind(line, "] Timeout at collective: ")) {
    const std::size_t hash = call->find(", #");
    const auto number = hash == std::string_view::npos ? std::nullopt : number_at(call->substr(hash + 3));
    if (!number || reports_.size() >= kMostReports) return true;
    Desync report;
    report.process = process;
    report.number = *number;
    report.operation = operation_name(call->substr(0, std::min<std::size_t>(hash, 64)));
    report.reporter = take_ranks(line);
    open_reports_[process] = reports_.size();
    reports_.push_back(std::move(report));
    return true;
  }
  const auto open = open_reports_.find(process);
  if (open == open_reports_.end()) return false;
  Desync& report = reports_[open->second];
  if (const auto ranks = behind(line, "To our best knowledge, ranks ")) {
    std::string_view rest = *ranks;
    if (report.never_joined.empty()) report.never_joined = take_ranks(rest);
    return true;
  }
  const std::size_t heading = std::min(line.find(" started ranks:"), line.find(" finished ranks:"));
  if (heading != std::string_view::npos) {
    report.listed = number_behind(line.substr(0, heading), "#");
    return true;
  }
  std::string_view rest = line;
  const std::vector<int> ranks = take_ranks(rest);
  const bool has_ended = rest.starts_with(" finished ");
  if (!has_ended && !rest.starts_with(" started ") && !rest.starts_with(" joined but didn't finish collective #")) {
    return false;
  }
  const auto stated = number_behind(rest, "collective #");  // in the lines before the list
  const auto number = stated ? stated : report.listed;
  if (!number || *number < 0) return true;
  for (const int rank : ranks) {
    if (report.states.size() >= kMostReportedRanks) break;
    report.states[rank] = {*number, has_ended};
    if (!stated) report.operations[rank] = operation_name(rest.substr(has_ended ? 10 : 9).substr(0, 64));
  }
  return true;
}

// PyTorch 2.3 has its own number of the group of a process in "[PG 1 Rank 0]". Other ranks may have another number for
// the same group, except 0.
std::string WatchdogLines::name_of(const Prefix& prefix) const {
  const bool is_local = prefix.is_short && !is_newer_than_2_3_ && prefix.group != kDefaultGroup;
  return is_local ? "" : prefix.group;
}

void WatchdogLines::append_process(const Process& process, std::vector<CollectiveRecords>& all) const {
  CollectiveRecords base;
  base.rank = process.rank;
  for (const auto& [group, status] : process.groups) {
    CollectiveRecords& one = all.emplace_back(base);
    one.group = name_of(status.prefix);
    one.description = status.prefix.description;
    if (one.group.empty()) one.description = "PG " + group;
    one.rank_of_group = status.prefix.rank_of_group;
    one.last_enqueued = status.enqueued;
    one.last_completed = status.completed;
    for (const auto& [number, call] : status.calls) {
      one.has_mixed_numbers = one.has_mixed_numbers || call.is_p2p;
      if (!one.last_enqueued || *one.last_enqueued < number) one.last_enqueued = number;
      one.calls.push_back(call);
    }
  }
  if (process.without_group.empty()) return;
  CollectiveRecords& one = all.emplace_back(base);
  one.rank_of_group = process.rank_without_group;
  for (const auto& [number, call] : process.without_group) {
    one.has_mixed_numbers = one.has_mixed_numbers || call.is_p2p;
    raise_to(one.last_enqueued, number);
    one.calls.push_back(call);
  }
}

// The report counts ranks within its group, which it does not name. If one group of the process has timed out at the
// same number, it is that group. Lines without a tag do not tell the process.
std::set<std::string> WatchdogLines::groups_of(const Desync& report) const {
  std::set<std::string> groups;
  for (const auto& [key, process] : processes_) {
    for (const auto& [group, status] : process.groups) {
      const bool is_reporter = key == report.process || (report.process.empty() && status.prefix.rank_of_group &&
                                                         report.reporter == std::vector{*status.prefix.rank_of_group});
      if (is_reporter && status.calls.contains(report.number)) groups.insert(name_of(status.prefix));
    }
  }
  return groups;
}

void WatchdogLines::append_desync(const Desync& report, int index, std::vector<CollectiveRecords>& all) const {
  CollectiveRecords base;
  base.report = index;
  const std::set<std::string> groups = groups_of(report);
  if (groups.size() == 1) base.group = *groups.begin();
  if (!base.group.empty()) base.report = 0;
  if (!report.states.empty() && report.operations.size() == report.states.size()) {  // the list has all ranks
    base.group_size = static_cast<int>(report.states.size());
  }
  for (const int rank : report.never_joined) {
    CollectiveRecords& one = all.emplace_back(base);
    one.rank_of_group = rank;
    one.last_enqueued = 0;
    one.last_completed = 0;
  }
  std::map<int, std::pair<std::int64_t, bool>> states = report.states;
  if (!report.never_joined.empty()) {  // without a list of the other ranks
    for (const int rank : report.reporter) states[rank] = {report.number, false};
  }
  for (const auto& [rank, state] : states) {
    CollectiveRecords& one = all.emplace_back(base);
    one.rank_of_group = rank;
    one.last_enqueued = state.first;
    one.last_completed = state.second ? state.first : state.first - 1;
    const auto operation = report.operations.find(rank);
    RecordedCall call;
    call.number = state.first;
    if (operation != report.operations.end()) call.operation = operation->second;
    if (state.first == report.number && call.operation.empty() && !state.second) call.operation = report.operation;
    call.state = state.second ? CallState::completed : CallState::started;
    one.calls.push_back(std::move(call));
  }
}

std::vector<CollectiveRecords> WatchdogLines::records() const {
  std::vector<CollectiveRecords> all;
  for (const auto& [key, process] : processes_) append_process(process, all);
  int index = 0;
  for (const Desync& report : reports_) append_desync(report, ++index, all);
  return all;
}

}  // namespace ddp::launcher

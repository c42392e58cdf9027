#include "launcher/see/report/report_data.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "launcher/see/report/history_json.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

constexpr int kMostAttempts = 1000;
constexpr std::size_t kMostMessages = 500;

// The next functions read values from an event. Nothing is trusted: a value of another type counts as missing.
const Json& value_at(const Json& object, const char* name) {
  static const Json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::string text_at(const Json& object, const char* name) {
  const Json& value = value_at(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

// Times and sizes are never negative.
double number_at(const Json& object, const char* name) {
  const Json& value = value_at(object, name);
  return value.is_number() ? std::max(value.get<double>(), 0.0) : 0;
}

std::uint64_t count_at(const Json& object, const char* name) {
  return static_cast<std::uint64_t>(std::min(number_at(object, name), 9e18));
}

std::optional<int> optional_integer(const Json& value) {
  if (!value.is_number() || std::abs(value.get<double>()) > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(value.get<double>());
}

int integer_at(const Json& object, const char* name) {
  return optional_integer(value_at(object, name)).value_or(0);
}

// Returns the elements of an array, and none of anything else.
const std::vector<Json>& list_at(const Json& object, const char* name) {
  static const std::vector<Json> kNone;
  const auto* list = value_at(object, name).get_ptr<const Json::array_t*>();
  return list == nullptr ? kNone : *list;
}

std::vector<std::string> texts_at(const Json& object, const char* name) {
  std::vector<std::string> texts;
  for (const Json& each : list_at(object, name)) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

std::vector<int> integers_at(const Json& object, const char* name) {
  std::vector<int> integers;
  for (const Json& each : list_at(object, name)) {
    if (const auto integer = optional_integer(each)) integers.push_back(*integer);
  }
  return integers;
}

std::vector<MergedStack> read_stacks(const Json& stall) {
  std::vector<RankStacks> ranks;
  for (const Json& each : list_at(stall, "stacks")) {
    RankStacks stacks;
    stacks.rank = integer_at(each, "rank");
    // Only the first threads are merged.
    for (const Json& thread : list_at(each, "threads")) {
      if (stacks.threads.empty()) stacks.threads.push_back({0, text_at(thread, "name"), texts_at(thread, "frames")});
    }
    ranks.push_back(std::move(stacks));
  }
  return merge_stacks(ranks);
}

std::string end_of(const Json& event) {
  const std::string signal = text_at(event, "signal");
  if (!signal.empty()) return signal;
  const auto code = optional_integer(value_at(event, "exit_code"));
  return code ? "exit code " + std::to_string(*code) : "";
}

// Adds the events of a run, in their order, to a RunRecord.
class RunReader {
 public:
  explicit RunReader(const std::map<int, AttemptHistory>& histories) : histories_(histories) {}

  void add(const Json& event) {
    const std::string kind = text_at(event, "event");
    if (const auto time = seconds_of_time(text_at(event, "time"))) {
      if (!begin_) begin_ = *time;
      now_ = std::max(now_, *time - *begin_);
      event_time_ = std::max(*time - *begin_, 0.0);
    }
    using Reader = void (RunReader::*)(const Json&);
    static const std::map<std::string, Reader> kReaders = {{"job_started", &RunReader::job_started},
                                                           {"attempt_started", &RunReader::attempt_started},
                                                           {"worker_started", &RunReader::worker},
                                                           {"worker_not_started", &RunReader::worker},
                                                           {"worker_ended", &RunReader::worker},
                                                           {"hang", &RunReader::hang},
                                                           {"message", &RunReader::message},
                                                           {"history", &RunReader::history},
                                                           {"attempt_ended", &RunReader::attempt_ended},
                                                           {"job_ended", &RunReader::job_ended},
                                                           {"signal", &RunReader::signal},
                                                           {"ended_elsewhere", &RunReader::ended_elsewhere}};
    if (const auto reader = kReaders.find(kind); reader != kReaders.end()) (this->*reader->second)(event);
  }

  RunRecord finish() {
    if (!run_.exit_code) run_.seconds = now_;
    for (auto& [number, attempt] : attempts_) {
      for (auto& [rank, worker] : workers_[number]) attempt.workers.push_back(std::move(worker));
      add_nodes_of_history(attempt);
      std::ranges::sort(attempt.nodes, {}, &NodeRecord::first_rank);
      run_.attempts.push_back(std::move(attempt));
    }
    say_what_is_missing();
    return std::move(run_);
  }

 private:
  AttemptRecord* attempt_of(const Json& event) {
    const int number = std::max(integer_at(event, "attempt"), 0);
    const auto found = attempts_.find(number);
    if (found != attempts_.end()) return &found->second;
    if (attempts_.size() >= kMostAttempts) return nullptr;
    AttemptRecord& attempt = attempts_[number];
    attempt.number = number;
    attempt.begin = event_time_;
    return &attempt;
  }

  void job_started(const Json& event) {
    has_start_ = true;
    has_gone_on_ = has_gone_on_ || integer_at(event, "attempts_before") > 0;
    if (!run_.started.empty()) return;  // another node of the job writes to the same file
    run_.started = text_at(event, "time");
    run_.run_id = text_at(event, "run_id");
    run_.node = text_at(event, "node");
    run_.version = text_at(event, "version");
    run_.arguments = texts_at(event, "arguments");
    run_.command_line = texts_at(event, "command_line");
    run_.variables = texts_at(event, "variables");
    run_.directory = text_at(event, "directory");
    run_.system = text_at(event, "system");
    run_.nodes = text_at(event, "nodes");
    run_.log_directory = text_at(event, "log_directory");
    run_.workers = integer_at(event, "workers");
    run_.max_restarts = integer_at(event, "max_restarts");
    recording_ = text_at(event, "recording");
  }

  void attempt_started(const Json& event) {
    AttemptRecord* attempt = attempt_of(event);
    if (attempt == nullptr) return;
    attempt->world_size = integer_at(event, "world_size");
    attempt->recording = recording_;
    attempt->restored = text_at(value_at(event, "restored"), "text");
    attempt->since_failure = number_at(event, "since_failure_seconds");
    attempt->nodes.push_back({text_at(event, "node"), integer_at(event, "first_rank"), integer_at(event, "workers")});
  }

  void worker(const Json& event) {
    AttemptRecord* attempt = attempt_of(event);
    if (attempt == nullptr) return;
    const int rank = integer_at(event, "rank");
    WorkerRecord& worker = workers_[attempt->number][rank];
    worker.rank = rank;
    worker.node = text_at(event, "node");
    const std::string kind = text_at(event, "event");
    if (kind == "worker_started") {
      worker.pid = integer_at(event, "pid");
      worker.gpu = text_at(event, "gpu");
      return;
    }
    worker.ended = event_time_;
    worker.end = kind == "worker_not_started" ? "not started" : end_of(event);
    worker.error = text_at(event, kind == "worker_not_started" ? "message" : "error");
    worker.peak_memory = count_at(event, "peak_rss_bytes");
  }

  // "rank 1: not called: all_reduce f32[8] (#1 of world), ranks 0, 2 wait", for an event without text.
  static std::string sentence_about(const Json& stall) {
    const std::string call = text_at(stall, "call");
    const std::vector<int> waiting = integers_at(stall, "waiting");
    std::string text = base::ranks_text(integers_at(stall, "culprits")) + ": " + text_at(stall, "verdict");
    if (!call.empty()) {
      text += ": " + call + " (#" + std::to_string(count_at(stall, "number")) + " of " + text_at(stall, "group") + ")";
    }
    if (!waiting.empty()) text += ", " + base::ranks_text(waiting, "waits", "wait");
    return text;
  }

  void hang(const Json& event) {
    AttemptRecord* attempt = attempt_of(event);
    if (attempt == nullptr) return;
    const Json& json = value_at(event, "stall");
    StallRecord stall;
    stall.time = event_time_;
    stall.age = number_at(json, "age_seconds");
    stall.state = text_at(event, "state");
    stall.code = text_at(json, "code");
    stall.culprits = integers_at(json, "culprits");
    stall.text = texts_at(event, "text");
    if (stall.text.empty()) {
      stall.text.push_back(sentence_about(json));
    }
    stall.stacks = read_stacks(json);
    attempt->stalls.push_back(std::move(stall));
  }

  void add_message(const Json& event, std::string level, std::string text) {
    if (run_.messages.size() == kMostMessages) {
      ++messages_left_out_;
      return;
    }
    run_.messages.push_back({event_time_, text_at(event, "node"), std::move(level), std::move(text)});
  }

  void message(const Json& event) { add_message(event, text_at(event, "level"), text_at(event, "text")); }
  void signal(const Json& event) { add_message(event, "note", "ddplaunch received " + text_at(event, "signal")); }
  void ended_elsewhere(const Json& event) {
    add_message(event, "warning",
                "the attempt ends: node " + text_at(event, "other_node") + ": " + text_at(event, "message"));
  }

  void history(const Json& event) {
    AttemptRecord* attempt = attempt_of(event);
    if (attempt == nullptr) return;
    // If several nodes write to the same file, the coordinator knows the most ranks.
    const auto kept = histories_.find(attempt->number);
    AttemptHistory history = kept == histories_.end() ? read_history(event) : kept->second;
    const std::string recording = text_at(event, "recording");
    if (!recording.empty()) attempt->recording = recording;
    if (!attempt->history || attempt->history->ranks.size() < history.ranks.size())
      attempt->history = std::move(history);
  }

  void attempt_ended(const Json& event) {
    AttemptRecord* attempt = attempt_of(event);
    if (attempt == nullptr) return;
    const Json& cause = value_at(event, "cause");
    const std::string kind = text_at(cause, "kind");
    // If several nodes write to the same file, the node of the cause knows the most.
    if (attempt->end && (kind == "elsewhere" || kind.empty())) return;
    attempt->end = event_time_;
    attempt->exit_code = integer_at(event, "exit_code");
    attempt->cause = kind;
    attempt->next = text_at(event, "next");
    attempt->text = texts_at(event, "text");
    attempt->last_lines = texts_at(event, "last_lines");
    attempt->core = text_at(event, "core");
    attempt->log_file = text_at(event, "log_file");
    attempt->culprits = kind == "hang" ? integers_at(value_at(cause, "stall"), "culprits") : std::vector<int>();
    if (kind == "worker_failed") attempt->culprits = {integer_at(cause, "rank")};
    if (kind == "exit_timeout") attempt->culprits = integers_at(cause, "waited_for");
  }

  void job_ended(const Json& event) {
    run_.exit_code = integer_at(event, "exit_code");
    run_.seconds = has_gone_on_ ? event_time_ : number_at(event, "run_seconds");
    run_.text = texts_at(event, "text");
  }

  // A node's event log has only its own workers. Its history shows which nodes the other ranks are on.
  static void add_nodes_of_history(AttemptRecord& attempt) {
    if (!attempt.history) return;
    std::set<std::string> known;
    for (const NodeRecord& node : attempt.nodes) known.insert(node.name);
    std::map<std::string, NodeRecord> others;
    for (const RankHistory& rank : attempt.history->ranks) {
      if (known.contains(rank.node)) continue;
      NodeRecord& node = others.try_emplace(rank.node, NodeRecord{rank.node, rank.rank, 0}).first->second;
      ++node.workers;
    }
    for (auto& [name, node] : others) attempt.nodes.push_back(std::move(node));
  }

  void say_what_is_missing() {
    const auto say = [&](const std::string& text) { run_.missing.push_back(text); };
    if (!has_start_) say("The event log does not contain the start of the job, so its command line is unknown.");
    if (!run_.exit_code) {
      say("The event log ends before the job: the launcher was killed, its disk was full, or the job is still "
          "running.");
    }
    for (const AttemptRecord& attempt : run_.attempts) {
      if (!attempt.end && run_.exit_code) {
        say("The event log does not contain the end of attempt " + std::to_string(attempt.number) + ".");
      }
      if (!attempt.history && attempt.end) {
        say("The event log contains no history of attempt " + std::to_string(attempt.number) +
            ", so there are no strips of its ranks.");
      }
    }
    if (messages_left_out_ > 0) say(base::counted(messages_left_out_, "later message") + " are left out.");
  }

  const std::map<int, AttemptHistory>& histories_;
  RunRecord run_;
  std::map<int, AttemptRecord> attempts_;
  std::map<int, std::map<int, WorkerRecord>> workers_;  // by attempt and rank
  std::string recording_;
  bool has_start_ = false;
  bool has_gone_on_ = false;     // after a hang, in another call of launch()
  std::optional<double> begin_;  // seconds since 1970
  double event_time_ = 0;
  double now_ = 0;
  std::int64_t messages_left_out_ = 0;
};

}  // namespace

std::optional<double> seconds_of_time(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  double seconds = static_cast<double>(::timegm(&parts));
  const std::string_view fraction(rest);
  if (fraction.size() == 5 && fraction[0] == '.' && fraction[4] == 'Z') {
    seconds += static_cast<double>(base::parse_integer(fraction.substr(1, 3), 0, 999).value_or(0)) / 1e3;
  }
  return seconds;
}

std::optional<RunRecord> read_run(std::span<const std::string> event_lines, const std::string& run_id,
                                  const std::map<int, AttemptHistory>& histories) {
  std::vector<Json> events;  // of the selected run
  std::string selected = run_id;
  std::set<std::string> started;  // nodes that have started the selected run
  std::int64_t unreadable = 0;
  std::uint64_t dropped = 0;
  for (const std::string& line : event_lines) {
    if (base::trimmed(line).empty()) continue;
    Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !value_at(event, "event").is_string()) {
      ++unreadable;
      continue;
    }
    const std::string kind = text_at(event, "event");
    if (kind == "dropped") dropped += count_at(event, "lines");
    const std::string id = text_at(event, "run_id");
    if (!run_id.empty() && id != run_id) continue;
    if (run_id.empty() && id != selected) {
      // Lines of an earlier run may follow if two jobs write to the same file.
      if (kind != "job_started" && !events.empty()) continue;
      selected = id;
      events.clear();
      started.clear();
    }
    const bool goes_on = integer_at(event, "attempts_before") > 0;
    if (kind == "job_started" && !goes_on && !started.insert(text_at(event, "node")).second) {
      events.clear();  // the run id is used again
      started = {text_at(event, "node")};
    }
    events.push_back(std::move(event));
  }
  if (events.empty()) return std::nullopt;
  RunReader reader(histories);
  for (const Json& event : events) reader.add(event);
  RunRecord run = reader.finish();
  if (run.run_id.empty()) run.run_id = selected;
  if (unreadable > 0) {
    run.missing.push_back(base::counted(unreadable, "line") + " of the event log " +
                          base::plural(unreadable, "is no event.", "are no events."));
  }
  if (dropped > 0) {
    run.missing.push_back(std::to_string(dropped) +
                          " events are left out, because the launcher keeps a limited number in memory.");
  }
  return run;
}

}  // namespace ddp::launcher

#include "launcher/see/explain/log_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "base/hash.h"
#include "launcher/run/output/python_traceback.h"
#include "launcher/run/output/terminal_text.h"
#include "launcher/start/causes/cause_table.h"
#include "launcher/start/causes/word_finder.h"

namespace ddp::launcher {

// What the words of a line say.
struct LineSigns {
  const Cause* cause = nullptr;
  Report begins = Report::none;
  bool is_of_launcher = false;
  bool is_of_watchdog = false;
  bool announces_thread = false;

  friend bool operator==(const LineSigns&, const LineSigns&) = default;
};

namespace {

constexpr std::size_t kManyLines = 60;
constexpr std::size_t kManyAfterWords = 5;
constexpr std::size_t kShapeBytes = 80;  // of the begin of a line

// Several ranks may print these after a failure, one after the other.
constexpr std::string_view kOfFailures[] = {
    "rror",  "arning", "WARN", "xception",         "ailed", "exit",     "pid",    "signal", "SIG",
    "frame", "0x",     "NCCL", "xtension modules", "CUDA_", "terminat", "illing "};

bool is_ordinary(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.front() == '\t') return false;
  if (std::ranges::none_of(text, [](unsigned char c) { return std::isalnum(c) != 0; })) return false;
  // A program may write "[INFO] ". PyTorch and torchrun begin other lines with a bracket.
  if (text.front() == '[' && (text.find("] ") == std::string_view::npos || text.starts_with("[PG ID") ||
                              text.starts_with("[Rank ") || text.starts_with("[c10d]"))) {
    return false;
  }
  return std::ranges::none_of(kOfFailures, [&](std::string_view word) {
    const std::size_t at = text.find(word);
    // A progress bar may show a value such as "error=0.2".
    return at != std::string_view::npos && !text.substr(at + word.size()).starts_with('=');
  });
}

constexpr std::size_t kLineBytes = std::size_t{64} << 10;  // of a line. The rest counts as the next one
constexpr std::uint64_t kFirstLines = 1000;  // are read to know the ranks. Of the next ones, only those of interest are
constexpr char kEscape = '\x1b';
constexpr std::size_t kSequenceBytes = 4096;  // of an escape sequence whose end has not come yet
constexpr std::size_t kMostStreams = 10'000;
constexpr std::size_t kWordsBytes = 4096;  // of a program's last line
constexpr std::size_t kPrefixBytes = 80;   // of a line, where a logger writes its name
constexpr std::size_t kFailuresOfLog = 10'000;

struct ReportBegin {
  std::string_view words;
  Report report;
};
constexpr std::array kReportBegins = {
    ReportBegin{kTracebackBegin, Report::python},
    ReportBegin{"terminate called after throwing an instance of", Report::cxx},
    ReportBegin{"Fatal Python error: ", Report::fatal_error},
};

// Lines before the traceback of an exception that does not end the program.
constexpr std::array kOfThreads = {std::string_view("Exception in thread "), std::string_view("Exception ignored in"),
                                   std::string_view("Error in atexit._run_exitfuncs")};

// Of lines that launchers print around the end of a job.
constexpr std::string_view kAroundEnds[] = {"torch/distributed/",
                                            "torch.distributed.",
                                            "srun: ",
                                            "slurmstepd: ",
                                            "-----",
                                            "=====",
                                            "Primary job  terminated normally",
                                            "a non-zero exit code. Per user-direction"};

// A report begins at the begin of a line, behind a frame that rich draws, or behind a progress bar or a tag. In
// IPython, the name of the exception comes first.
bool begins_report(std::string_view text, Report report) {
  const auto begin = std::ranges::find(kReportBegins, report, &ReportBegin::report);
  if (begin == kReportBegins.end()) return false;
  const std::size_t at = text.find(begin->words);
  std::string_view before = text.substr(0, at);
  while (before.ends_with(' ')) before.remove_suffix(1);
  if (before.empty() || before == "^C" || before.ends_with(']') || before.ends_with('|') || before.ends_with("─"))
    return true;
  if (before.ends_with("Original") || before.ends_with("+ Exception Group")) return true;
  return before.size() + 1 < at && before.find(' ') == std::string_view::npos;
}

class SignFinder {
 public:
  SignFinder() : finder_(words()), all_finder_(all_words()) {}

  // Returns where the text contains the first word of a sign or a cause, or npos.
  std::size_t first_word(std::string_view text) const {
    WordFinder::Place place;
    return all_finder_.next(text, place) ? place.at : std::string_view::npos;
  }

  LineSigns find(std::string_view text) const {
    LineSigns signs;
    WordFinder::Place place;
    while (const auto word = finder_.next(text, place)) {
      if (*word < kReportBegins.size()) {
        signs.begins = kReportBegins[*word].report;
      } else if (*word < kReportBegins.size() + words_of_launchers().size()) {
        signs.is_of_launcher = true;
      } else if (*word < kReportBegins.size() + words_of_launchers().size() + watchdog_words().size()) {
        signs.is_of_watchdog = true;
      } else {
        signs.announces_thread = true;
      }
    }
    return signs;
  }

 private:
  static std::vector<std::string_view> words() {
    std::vector<std::string_view> all;
    for (const ReportBegin& begin : kReportBegins) all.push_back(begin.words);
    all.insert(all.end(), words_of_launchers().begin(), words_of_launchers().end());
    all.insert(all.end(), watchdog_words().begin(), watchdog_words().end());
    all.insert(all.end(), kOfThreads.begin(), kOfThreads.end());
    return all;
  }

  static std::vector<std::string_view> all_words() {
    std::vector<std::string_view> all = words();
    const auto of_causes = words_of_causes();
    all.insert(all.end(), of_causes.begin(), of_causes.end());
    return all;
  }

  WordFinder finder_;
  WordFinder all_finder_;
};

const SignFinder& sign_finder() {
  static const SignFinder kFinder;
  return kFinder;
}

// Returns the exception of a traceback that a line of JSON contains, or nothing.
std::string error_in_json(std::string_view line) {
  const std::size_t begin = line.find(kTracebackBegin);
  if (!line.starts_with('{') || begin == std::string_view::npos) return "";
  std::string traceback;
  for (std::size_t at = begin; at < line.size() && line[at] != '"'; ++at) {
    if (line[at] != '\\') {
      traceback += line[at];
    } else if (++at < line.size()) {
      traceback += line[at] == 'n' ? '\n' : line[at];
    }
  }
  const auto error = last_python_error(traceback);
  return error ? error->message : "";
}

// Returns which lines after the failure cannot be more of its message.
Outside outside_of(const Failure& failure, const LoggedLine& last) {
  if (failure.form == Form::crash || (failure.form == Form::words && !names_exception(failure.message)))
    return Outside::all_lines;
  // A launcher may write a time before each line.
  return last.time ? Outside::no_line : Outside::timed_lines;
}

}  // namespace

void LogProgress::begin(bool is_exception) {
  for (Shape& shape : shapes_) shape.is_before = true;
  lines_ = 0;
  is_exception_ = is_exception;
}

Progress LogProgress::add(std::string_view text, bool is_outside) {
  if (!is_ordinary(text)) return Progress::none;
  if (++lines_ >= (is_exception_ ? kManyLines : kManyAfterWords)) return Progress::certain;
  Progress progress = is_outside ? Progress::perhaps : Progress::none;
  text = text.substr(0, kShapeBytes);
  std::string shape;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      shape += c;
    else if (!shape.ends_with('#'))
      shape += '#';
  }
  if (shape.find('#') == std::string::npos) return progress;
  const auto hash = [](std::string_view words) {
    base::Fnv1a64 value;
    value.update(words);
    return value.value();
  };
  const Shape now{hash(shape), hash(text)};
  for (const Shape& other : shapes_) {
    if (other.without_digits != now.without_digits || other.whole == now.whole) continue;
    progress = std::max(progress, other.is_before ? Progress::perhaps : Progress::certain);
  }
  shapes_[next_++ % shapes_.size()] = now;
  return progress;
}

LogReader::LogReader(std::string file, std::optional<int> rank) : file_(std::move(file)), rank_(rank) {}

void LogReader::add(std::string_view bytes) {
  if (sequence_.empty() && bytes.find(kEscape) == std::string_view::npos) return add_plain(bytes);
  sequence_ += bytes;
  std::string_view rest = sequence_;
  plain_.clear();
  while (true) {
    const std::size_t escape = std::min(rest.find(kEscape), rest.size());
    plain_ += rest.substr(0, escape);
    rest.remove_prefix(escape);
    if (rest.empty()) break;
    std::size_t length = sequence_length(rest);
    length = std::min(rest.substr(0, length).find('\n'), length);  // a line's end ends a damaged one
    if (length == rest.size() && length < kSequenceBytes) break;   // it may go on
    rest.remove_prefix(length);
  }
  sequence_.erase(0, sequence_.size() - rest.size());
  add_plain(plain_);
}

void LogReader::add_plain(std::string_view bytes) {
  while (!bytes.empty()) {
    if (rest_.empty() && !is_watching_ && number_ > kFirstLines) {
      const std::string_view skipped = bytes.substr(0, skippable(bytes));
      for (std::size_t at = skipped.find('\n'); at != std::string_view::npos; at = skipped.find('\n', at + 1))
        ++number_;
      if (!skipped.empty()) note_words(skipped);
      bytes.remove_prefix(skipped.size());
    }
    const std::size_t end = bytes.find('\n');
    std::string_view part = bytes.substr(0, end);
    if (rest_.size() + part.size() > kLineBytes) {
      part = part.substr(0, kLineBytes - rest_.size());
      rest_ += part;
      add_line(rest_);
      rest_.clear();
      bytes.remove_prefix(part.size());
      continue;
    }
    if (end == std::string_view::npos) {
      rest_ += part;
      return;
    }
    ++number_;
    if (rest_.empty()) {
      add_line(part);
    } else {
      rest_ += part;
      add_line(rest_);
      rest_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

// Returns how many bytes at the front are whole lines in which nothing is of interest.
std::size_t LogReader::skippable(std::string_view bytes) const {
  return bytes.substr(0, sign_finder().first_word(bytes)).rfind('\n') + 1;  // 0 if there is none
}

// A progress bar overwrites its line: the parts between carriage returns are lines of their own.
void LogReader::add_line(std::string_view line) {
  while (true) {
    const std::size_t end = line.find('\r');
    std::string_view part = line.substr(0, end);
    if (part.starts_with('\0')) part.remove_prefix(1);  // PyTorch's DataLoader writes one after some lines
    read(part);
    if (end == std::string_view::npos || end + 1 == line.size()) return;
    line.remove_prefix(end + 1);
  }
}

LogReader::Stream& LogReader::stream_of(const LoggedLine& line) {
  const bool has_only_rank = line.tag.empty() && line.rank;
  const std::string of_rank = has_only_rank ? "rank " + std::to_string(*line.rank) : "";
  const std::string_view key = has_only_rank ? std::string_view(of_rank) : line.tag;
  auto found = streams_.find(key);
  if (found == streams_.end()) {
    const bool is_full = streams_.size() >= kMostStreams;
    found = streams_.try_emplace(std::string(is_full ? "" : key)).first;
    // A launcher may merge equal lines of several ranks, or have a tag for each output of a rank.
    const std::string program = line.tag.empty() || is_full ? ""
                                : line.local_rank           ? "local " + std::to_string(*line.local_rank)
                                : line.rank                 ? "rank " + std::to_string(*line.rank)
                                                            : std::string(line.tag);
    found->second.program = &programs_[program];
  }
  return found->second;
}

void LogReader::note_launcher(std::string_view text) {
  const auto has_ended = [&] { return !launcher_.ends().empty() || launcher_.has_failed(); };
  const bool had_ended = has_ended();
  launcher_.add(text, {file_, number_});
  if (!had_ended && has_ended()) words_of_end_ = words_;
}

void LogReader::read(std::string_view plain) {
  LineSigns signs = sign_finder().find(plain);
  signs.cause = find_cause(plain);
  const bool has_sign = signs != LineSigns();
  if (has_sign) is_watching_ = true;
  if (!is_watching_ && number_ > kFirstLines) return note_words(plain);
  if (number_ % kFirstLines == 0) is_watching_ = has_sign || needs_all_lines();
  const LoggedLine line = read_line(plain);
  if (!begins_report(line.text, signs.begins)) signs.begins = Report::none;
  const bool is_of_worker = line.local_rank && !line.tag.empty();
  signs.is_of_launcher = signs.is_of_launcher && !is_of_worker && is_said_by_launcher(line.text);
  const bool is_own = is_own_line(line.text);
  const bool is_of_launcher = is_own || signs.is_of_launcher || launcher_.is_reading();
  if (is_of_launcher) note_launcher(line.text);
  if (const std::uint64_t restarted_at = launcher_.take_restart(); restarted_at > 0) note_restart(restarted_at);
  if (is_own) return;
  const bool is_of_program = read_output(line, signs);
  const bool is_of_other_rank = signs.cause != nullptr && signs.cause->proof != Proof::failure;
  if (is_of_program && !is_of_launcher && !is_of_other_rank) note_words(plain);
}

// Takes a line that may be of a worker. Returns whether it belongs to no report of a failure.
bool LogReader::read_output(const LoggedLine& line, const LineSigns& signs) {
  if (signs.is_of_watchdog) watchdog_.add(line.rank ? line.rank : rank_, line.body);
  if (line.rank) ranks_.insert(*line.rank);
  Stream& stream = stream_of(line);
  if (signs.announces_thread) stream.log.announce_thread();
  if (signs.begins == Report::python) {
    // A logger writes its message before a traceback that the program has caught.
    const LoggedLine before = read_line(words_);
    if (before.tag == line.tag && logs_trouble(before.text)) stream.program->may_have_gone_at = number_ + 1;
  }
  const bool is_report = stream.log.is_in_report() || signs.begins != Report::none;
  const bool may_fail = signs.cause != nullptr || is_report || stream.log.is_reading();
  if (may_fail && stream.log.add(line, {file_, number_}, signs.cause, signs.begins, signs.is_of_launcher)) {
    const Failure& failure = stream.log.failures().back();
    stream.program->progress.begin(failure.form != Form::words);
    stream.program->has_failed = true;
    stream.program->outside = outside_of(failure, line);
  } else if (signs.cause == nullptr && !is_report && !signs.is_of_launcher) {
    note_progress(stream, line);
  }
  return !is_report;
}

bool LogReader::needs_all_lines() const {
  return launcher_.is_reading() ||
         std::ranges::any_of(streams_, [](const auto& stream) { return stream.second.log.is_reading(); }) ||
         std::ranges::any_of(programs_, [](const auto& program) { return program.second.has_failed; });
}

// Keeps the last line of the text that a program has printed.
void LogReader::note_words(std::string_view plain) {
  constexpr std::size_t kMostLines = 16;
  for (std::size_t i = 0; i < kMostLines && !plain.empty(); ++i) {
    plain = plain.substr(0, plain.find_last_not_of("\n\r ") + 1);                // nothing if there is no other byte
    const std::string_view line = plain.substr(plain.find_last_of("\n\r") + 1);  // all of it if there is none
    plain.remove_suffix(line.size());
    const bool has_word = std::ranges::any_of(line, [](unsigned char c) { return std::isalnum(c) != 0; });
    const bool is_of_program = has_word && std::ranges::none_of(kAroundEnds, [&](std::string_view words) {
                                 return line.substr(0, kPrefixBytes).find(words) != std::string_view::npos;
                               });
    if (!is_of_program) continue;
    words_ = line.substr(0, kWordsBytes);
    return;
  }
}

// A launcher that quotes nothing has often been told why by the last line before its own.
void LogReader::quote_words(std::vector<EndOfRank>& ends) const {
  const LoggedLine line = read_line(words_of_end_);
  if (line.text.empty()) return;
  for (EndOfRank& end : ends) {
    const bool is_of_other = (line.rank && line.rank != end.rank) ||
                             (line.local_rank && end.local_rank && line.local_rank != end.local_rank);
    if (!end.quoted.empty() || end.is_own || is_of_other) continue;
    end.quoted = error_in_json(line.text);
    end.is_error_quoted = !end.quoted.empty();
    if (!end.is_error_quoted) end.quoted = line.text;
  }
}

// What failed before has not ended the job.
void LogReader::note_restart(std::uint64_t line) {
  for (auto& [tag, program] : programs_) program.restarted_at = std::max(program.restarted_at, line);
  launcher_.forget(line);
  words_of_end_.clear();
}

void LogReader::note_progress(Stream& stream, const LoggedLine& line) {
  note_progress(*stream.program, line);
  // Words without a tag may be of any program.
  Program& untagged = programs_[""];
  if (&untagged != stream.program && untagged.has_failed && !untagged.progress.is_after_exception()) {
    note_progress(untagged, line);
  }
}

void LogReader::note_progress(Program& program, const LoggedLine& line) {
  const bool is_outside =
      program.outside == Outside::all_lines || (program.outside == Outside::timed_lines && line.time);
  const Progress progress = program.progress.add(line.text, is_outside);
  if (!program.has_failed || progress == Progress::none) return;
  program.may_have_gone_at = number_;
  if (progress == Progress::perhaps) return;
  program.has_failed = false;
  program.went_on_at = number_;
  launcher_.forget(number_);
}

Standing LogReader::standing_of(const Failure& failure, const Program& program) const {
  if (failure.at.line < program.restarted_at) return Standing::restarted;
  // If no launcher says it, only the last thing in the log has ended its program for certain.
  const bool is_last = launcher_.has_failed() || failure.at.line > program.may_have_gone_at;
  const bool has_crashed = failure.form == Form::crash || failure.form == Form::abort;
  // What a crashed program had printed before may appear after it.
  if (has_crashed) return is_last ? failure.standing : Standing::printed;
  if (failure.at.line < program.went_on_at) return Standing::went_on;
  if (failure.standing == Standing::in_main) return is_last ? Standing::uncaught : Standing::printed;
  if (failure.standing == Standing::said && !is_last) return Standing::printed;
  return failure.standing;
}

LogFindings LogReader::finish() {
  sequence_.clear();
  if (!rest_.empty()) {
    ++number_;
    add_line(rest_);
    rest_.clear();
  }
  LogFindings findings{.ends = launcher_.ends(),
                       .records = watchdog_.records(),
                       .ranks = ranks_,
                       .has_failed = launcher_.has_failed(),
                       .lines = number_};
  for (auto& [key, stream] : streams_) {
    stream.log.finish();
    for (Failure failure : stream.log.failures()) {
      if (findings.failures.size() >= kFailuresOfLog) break;
      failure.standing = standing_of(failure, *stream.program);
      if (!failure.rank) failure.rank = rank_;
      findings.failures.push_back(std::move(failure));
    }
  }
  quote_words(findings.ends);
  if (rank_) findings.ranks.insert(*rank_);
  std::ranges::stable_sort(findings.failures, {}, &Failure::at);
  return findings;
}

}  // namespace ddp::launcher

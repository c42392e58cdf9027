#include "launcher/see/explain/log_inputs.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/see/explain/flight_dump.h"
#include "launcher/see/report/report_command.h"
#include "launcher/see/report/report_data.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;
constexpr std::size_t kFirstBytes = 4096;  // by which the kind of a file is recognized
constexpr std::size_t kMostFiles = 10'000;
constexpr std::size_t kDocumentBytes = std::size_t{16} << 20;  // of a file that is one JSON document
constexpr int kMostRanks = 1'000'000;

enum class FileKind { text, flight_dump, event_log, stall, hang_trace, torch_error, binary };

std::optional<int> rank_of(std::string_view digits) {
  const auto rank = base::parse_integer(digits, 0, kMostRanks);
  return rank ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

// Takes the digits at the end of a name.
std::string_view digits_at_end(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  return name.substr(begin);
}

// Reads "rank_3", "rank3", "log.3" and "3" (of a directory).
std::optional<int> rank_in_name(std::string_view name, bool is_directory, bool has_extension = false) {
  const std::string_view digits = digits_at_end(name);
  std::string_view before = name.substr(0, name.size() - digits.size());
  if (before.empty()) return is_directory ? rank_of(digits) : std::nullopt;
  // "job.4711.out" and "run.2.13.log" name a job and a version.
  if (!is_directory && !has_extension && before.size() > 1 && before.ends_with('.')) return rank_of(digits);
  if (before.ends_with('_') || before.ends_with('-') || before.ends_with('.')) before.remove_suffix(1);
  return before.ends_with("rank") ? rank_of(digits) : std::nullopt;
}

// A log may contain colours and other control characters, and zeros where a file system has lost it. A checkpoint has
// more of them.
bool is_binary(std::string_view first) {
  const auto controls = std::ranges::count_if(first, [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\0' &&
           std::string_view("\t\n\r\b\a\f\x1b").find(c) == std::string_view::npos;
  });
  return static_cast<std::size_t>(controls) * 50 > first.size();
}

struct NoLog {
  std::string_view begin;
  const char* reason;
};
constexpr NoLog kNoLogs[] = {
    {"\xff\xfe", "it is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 FILE | ddplaunch explain -"},
    {"\xfe\xff", "it is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 FILE | ddplaunch explain -"},
    {"\x1f\x8b", "it is compressed. Write gunzip -c FILE | ddplaunch explain -"},
    {"\x28\xb5\x2f\xfd", "it is compressed. Write zstd -dc FILE | ddplaunch explain -"},
    {"PK\x03\x04", "it is an archive or a checkpoint"},
    {"\177ELF", "it is a program or a core dump"},
};

// Returns why the file is no log, or an empty text if it may be one.
std::string why_no_log(std::string_view first) {
  for (const NoLog& one : kNoLogs) {
    if (first.starts_with(one.begin)) return one.reason;
  }
  return is_binary(first) ? "it contains bytes that are no text" : "";
}

// An event log begins with an event of a run, the file about a stall is such an event on several lines, and torchrun's
// error file is a JSON object with a message.
FileKind kind_of(std::string_view first) {
  if (first.starts_with('{')) {
    const std::string_view line = first.substr(0, first.find('\n'));
    if (line.find("\"run_id\":") != std::string_view::npos && line.find("\"event\":") != std::string_view::npos) {
      return FileKind::event_log;
    }
    if (line.starts_with("{\"elapsed\":") || line.starts_with("{\"explanation\":")) return FileKind::hang_trace;
    if (first.find("\"event\": \"hang\"") != std::string_view::npos) return FileKind::stall;
    if (first.substr(0, 40).find("\"message\":") != std::string_view::npos) return FileKind::torch_error;
  }
  if (may_be_flight_dump(first)) return FileKind::flight_dump;
  return why_no_log(first).empty() ? FileKind::text : FileKind::binary;
}

// Reads from a descriptor until the end. Returns the reason if that fails.
template <typename Take>
std::optional<base::Failure> read_all(int fd, const std::string& path, Take take) {
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return base::Failure{"cannot read " + path + ": " + std::strerror(errno) + ". Check its name"};
    if (size == 0) return std::nullopt;
    if (!take(std::string_view(buffer.data(), static_cast<std::size_t>(size)))) return std::nullopt;
  }
}

// Ends the reading of text that was made from a file of another kind, which has no such lines.
LogFindings without_lines(LogReader& reader) {
  LogFindings findings = reader.finish();
  for (Failure& failure : findings.failures) failure.at.line = 0;
  for (EndOfRank& end : findings.ends) end.at.line = 0;
  return findings;
}

// The texts of events are read as if they had been printed.
LogFindings read_events(const LogInput& file, std::span<const std::string> lines) {
  LogReader reader(file.path, std::nullopt);
  const auto run = read_run(lines);
  if (run && !run->attempts.empty()) {
    const AttemptRecord& last = run->attempts.back();
    const std::string tag = last.culprits.size() == 1 ? "[" + std::to_string(last.culprits.front()) + "] " : "";
    for (const std::string& line : last.last_lines) reader.add(tag + line + "\n");
    std::string tag_of_text = "ddplaunch: error: ";
    for (const std::string& line : last.text) {
      reader.add(tag_of_text + line + "\n");
      tag_of_text = "ddplaunch: ";
    }
    // The launcher may have been killed before it said how the attempt ended.
    if (last.text.empty() && !last.stalls.empty() && !last.stalls.back().text.empty()) {
      reader.add("ddplaunch: error: " + last.stalls.back().text.front() + " [" + last.stalls.back().code + "]\n");
    }
  }
  return without_lines(reader);
}

// A hang trace has lines such as {"explanation": "rank 1 has not called …"}. The last one is the verdict.
LogFindings read_hang_trace(const LogInput& file, const std::string& last_explanation) {
  LogReader reader(file.path, std::nullopt);
  const auto json = nlohmann::json::parse(last_explanation, nullptr, false);
  if (json.is_object() && json.contains("explanation") && json["explanation"].is_string()) {
    const auto text = json["explanation"].get<std::string>();
    if (text.find("[DDP-H") != std::string::npos) reader.add("ddplaunch: error: " + text + "\n");
  }
  return without_lines(reader);
}

// {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1730721600"}}}
LogFindings read_torch_error(const LogInput& file, const std::string& bytes) {
  LogReader reader(file.path, file.rank);
  const auto json = nlohmann::json::parse(bytes, nullptr, false);
  if (json.is_object() && json.contains("message")) {
    const auto& message = json["message"];
    if (message.is_string()) reader.add(message.get<std::string>() + "\n");
    if (message.is_object()) {
      const auto extra = message.value("extraInfo", nlohmann::json::object());
      const auto stack = extra.is_object() ? extra.value("py_callstack", nlohmann::json()) : nlohmann::json();
      if (stack.is_string()) reader.add(stack.get<std::string>() + "\n");
    }
  }
  return without_lines(reader);
}

// Keeps what is needed of a file of each kind, while it is read.
class FileContent {
 public:
  explicit FileContent(const LogInput& file, const std::string& name) : file_(file), reader_(name, file.rank) {}

  // Returns whether more of the file is needed.
  bool add(std::string_view part) {
    if (!std::exchange(has_begun_, true)) kind_ = kind_of(part.substr(0, kFirstBytes));
    if (kind_ == FileKind::binary) bytes_ = part.substr(0, kFirstBytes);
    switch (kind_) {
      case FileKind::text:
        reader_.add(part);
        return true;
      case FileKind::hang_trace:
        add_trace(part);
        return true;
      case FileKind::flight_dump:
      case FileKind::stall:
      case FileKind::torch_error:
        bytes_ += part.substr(0, kDocumentBytes - bytes_.size());
        return bytes_.size() < kDocumentBytes;
      case FileKind::event_log:
      case FileKind::binary:
        break;
    }
    return false;
  }

  // Returns the reason if the file is no log.
  base::Result<LogFindings> finish() {
    switch (kind_) {
      case FileKind::flight_dump: {
        auto records = read_flight_dump(bytes_, file_.path);
        if (!records) return base::Failure{records.error().message};
        return LogFindings{.records = std::move(records).value()};
      }
      case FileKind::text:
        break;
      case FileKind::hang_trace:
        return read_hang_trace(file_, bytes_);
      case FileKind::torch_error:
        return read_torch_error(file_, bytes_);
      case FileKind::stall: {
        const auto json = nlohmann::json::parse(bytes_, nullptr, false);
        const std::vector<std::string> lines = {json.is_object() ? json.dump(-1, ' ', false, kReplace) : ""};
        return read_events(file_, lines);
      }
      case FileKind::event_log: {
        if (file_.path == "-") return base::Failure{"it is an event log. Name its file: ddplaunch explain FILE"};
        const auto lines = read_event_log(file_.path, "");
        if (!lines) return base::Failure{lines.error().message};
        return read_events(file_, lines.value());
      }
      case FileKind::binary:
        return base::Failure{why_no_log(bytes_)};
    }
    return reader_.finish();
  }

 private:
  static constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

  // Keeps the last line with an explanation.
  void add_trace(std::string_view part) {
    while (!part.empty()) {
      const std::size_t end = part.find('\n');
      if (line_.size() < kFirstBytes) line_ += part.substr(0, end);
      if (end == std::string_view::npos) return;
      if (line_.starts_with("{\"explanation\":")) bytes_ = line_;
      line_.clear();
      part.remove_prefix(end + 1);
    }
  }

  const LogInput& file_;
  LogReader reader_;
  FileKind kind_ = FileKind::text;
  bool has_begun_ = false;
  std::string bytes_;  // of the document, or the last explanation of a trace
  std::string line_;   // of a trace, so far
};

}  // namespace

std::optional<int> rank_in_path(std::string_view path) {
  bool is_directory = false;
  for (int part = 0; part < 2 && !path.empty(); ++part) {
    const std::size_t slash = path.rfind('/');
    std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
    path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
    if (const auto rank = rank_in_name(name, is_directory)) return rank;
    if (const std::size_t dot = name.rfind('.'); !is_directory && dot != std::string_view::npos) {
      if (const auto rank = rank_in_name(name.substr(0, dot), false, true)) return rank;
    }
    is_directory = true;
  }
  return std::nullopt;
}

// Launchers write each attempt into a directory of its own: what failed before the last one has not ended the job.
static void leave_out_earlier_attempts(std::vector<std::string>& paths) {
  constexpr std::string_view kAttempt = "/attempt_";
  std::map<std::string, std::int64_t> last;  // by the directory of the attempts
  const auto attempt_of = [&](const std::string& path) -> std::optional<std::pair<std::string, std::int64_t>> {
    const std::size_t at = path.rfind(kAttempt);
    if (at == std::string::npos) return std::nullopt;
    const std::size_t begin = at + kAttempt.size();
    const auto number =
        base::parse_integer(std::string_view(path).substr(begin, path.find('/', begin) - begin), 0, kMostRanks);
    return number ? std::optional(std::pair(path.substr(0, at), *number)) : std::nullopt;
  };
  for (const std::string& path : paths) {
    if (const auto attempt = attempt_of(path)) {
      last[attempt->first] = std::max(last[attempt->first], attempt->second);
    }
  }
  std::erase_if(paths, [&](const std::string& path) {
    const auto attempt = attempt_of(path);
    return attempt && attempt->second < last[attempt->first];
  });
}

base::Result<std::vector<LogInput>> find_log_inputs(std::span<const std::string> inputs) {
  namespace fs = std::filesystem;
  std::vector<LogInput> files;
  for (const std::string& input : inputs) {
    std::error_code error;
    if (input == "-" || !fs::is_directory(input, error)) {
      if (input != "-" && !fs::exists(input, error)) {
        return base::Failure{"there is no file or directory " + input + ". Check its name"};
      }
      files.push_back({input, rank_in_path(input), true});
      continue;
    }
    std::vector<std::string> found;
    for (auto entry = fs::recursive_directory_iterator(input, fs::directory_options::skip_permission_denied, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code of_file;
      if (entry->is_regular_file(of_file)) found.push_back(entry->path().string());
      if (files.size() + found.size() > kMostFiles) {
        return base::Failure{"there are more than " + std::to_string(kMostFiles) + " files in " + input +
                             ". Name the directory of one job"};
      }
    }
    if (error) return base::Failure{"cannot read the directory " + input + ": " + error.message()};
    if (found.empty()) return base::Failure{"there are no files in " + input + ". Name the directory of the logs"};
    std::ranges::sort(found);
    leave_out_earlier_attempts(found);
    for (std::string& path : found) files.push_back({path, rank_in_path(path), false});
  }
  return files;
}

base::Result<FilesRead> read_log_inputs(std::span<const LogInput> files) {
  FilesRead result;
  for (const LogInput& file : files) {
    const bool is_input = file.path == "-";
    const std::string name = is_input ? "the standard input" : file.path;
    const base::UniqueFd own(is_input ? -1 : ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!is_input && !own) {
      const std::string why = "cannot read " + name + ": " + std::strerror(errno);
      if (file.is_named) return base::Failure{why + ". Check its name and its permissions"};
      result.notes.push_back(why);
      continue;
    }
    FileContent content(file, is_input ? "standard input" : file.path);
    const auto failure =
        read_all(is_input ? STDIN_FILENO : own.get(), name, [&](std::string_view part) { return content.add(part); });
    if (failure) return *failure;
    auto findings = content.finish();
    if (findings) {
      result.logs.push_back(std::move(findings).value());
    } else if (file.is_named) {
      return base::Failure{name + " is no log: " + findings.error().message};
    }
  }
  return result;
}

}  // namespace ddp::launcher

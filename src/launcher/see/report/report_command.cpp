#include "launcher/see/report/report_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/exit_code.h"
#include "base/unique_fd.h"
#include "launcher/see/report/event_memory.h"
#include "launcher/see/report/html/html_report.h"
#include "launcher/see/report/report_data.h"
#include "launcher/see/report/report_file.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostRunBytes = std::size_t{64} << 20;  // of the lines of one run, and of one line
constexpr std::size_t kMostRuns = 4;                          // whose lines are kept while the file is read
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

// Returns the run id of a line as it is written there, or an empty text if the line has none.
std::string_view written_run_id(std::string_view line) {
  constexpr std::string_view kName = "\"run_id\":\"";
  const std::size_t begin = line.substr(0, 1000).find(kName);  // it is one of the first fields
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = line.substr(begin + kName.size());
  const std::size_t end = rest.find('"');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

// Keeps the lines of the latest runs. A line without a run id (a line that is cut off) belongs to the run before it.
class RunMemories {
 public:
  explicit RunMemories(std::string run_id) : run_id_(std::move(run_id)) {}

  void add(std::string line) {
    const std::string id(written_run_id(line));
    if (!id.empty()) current_ = id;
    if (!run_id_.empty() && current_ != run_id_) return;
    auto run = std::ranges::find(runs_, current_, &std::pair<std::string, EventMemory>::first);
    if (run == runs_.end()) {
      runs_.emplace_back(current_, EventMemory(kMostRunBytes));
      if (runs_.size() > kMostRuns) runs_.pop_front();
      run = std::prev(runs_.end());
    }
    run->second.add(std::move(line));
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [id, memory] : runs_) {
      for (std::string& line : memory.lines()) lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  std::string run_id_;
  std::string current_;
  std::deque<std::pair<std::string, EventMemory>> runs_;
};

bool would_overwrite(const std::string& output, const std::string& event_log) {
  std::error_code error;
  return std::filesystem::is_regular_file(event_log, error) && std::filesystem::equivalent(output, event_log, error);
}

}  // namespace

base::Result<std::vector<std::string>> read_event_log(const std::string& path, const std::string& run_id) {
  const auto cannot = [&](int code) {
    return base::Failure{"cannot read the event log " + path + ": " + std::strerror(code) + ". Check its name"};
  };
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return cannot(errno);
  RunMemories memories(run_id);
  std::string buffer(kReadBytes, '\0');
  std::string line;
  bool is_too_long = false;
  for (;;) {
    const ssize_t size = ::read(file.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return cannot(errno);
    if (size == 0) break;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(size));
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      if (!is_too_long) memories.add(line + std::string(rest.substr(0, end)));
      line.clear();
      is_too_long = false;
      rest.remove_prefix(end + 1);
    }
    if (line.size() + rest.size() > kMostRunBytes) is_too_long = true;
    is_too_long ? line.clear() : static_cast<void>(line += rest);
  }
  memories.add(line);
  return memories.lines();
}

int run_report_command(const ReportOptions& options, Log& log, const std::function<int(const std::string&)>& print) {
  const auto fail = [&](const std::string& text) {
    log.write({LogLevel::error, LogSource::launcher, text});
    return base::kExitOwnFault;
  };
  std::vector<RunRecord> runs;
  for (const std::string& event_log : options.event_logs) {
    if (would_overwrite(options.output, event_log)) {
      return fail("the report would overwrite the event log '" + event_log + "'. Choose another file with -o.");
    }
    const auto lines = read_event_log(event_log, options.run_id);
    if (!lines) return fail(lines.error().message);
    auto run = read_run(lines.value(), options.run_id);
    if (!run) {
      return fail("the event log " + event_log + " contains no event" +
                  (options.run_id.empty() ? "" : " of the run " + options.run_id) + ". Is it the file of --event-log?");
    }
    runs.push_back(std::move(*run));
  }
  const std::string html = runs.size() == 1 ? html_report(runs.front()) : html_comparison(runs.front(), runs.back());
  if (options.output == "-") return print(html);
  if (const auto failure = write_report(options.output, html, options.output, Document::report))
    return fail(failure->message);
  log.write({LogLevel::info, LogSource::launcher, "the report is in " + options.output});
  return 0;
}

}  // namespace ddp::launcher

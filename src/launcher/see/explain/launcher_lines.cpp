#include "launcher/see/explain/launcher_lines.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "base/signals.h"
#include "base/text.h"
#include "launcher/see/explain/log_line.h"
#include "launcher/start/causes/cause_table.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostEnds = 64;
constexpr int kTableLines = 12;
constexpr std::size_t kTextBytes = 1000;

std::optional<int> number_after(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const auto number = base::parse_integer(text.substr(0, text.find_first_not_of("0123456789", sign)), -1000, 1'000'000);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Returns the value of "  rank      : 3 (local_rank: 3)". Formatters and mail programs change the number of spaces.
std::optional<std::string_view> field(std::string_view text, std::string_view name) {
  text.remove_prefix(std::min(text.find_first_not_of(" |"), text.size()));
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with(": ")) return std::nullopt;
  return text.substr(2);
}

// torchrun writes a negative number for a signal.
std::string exit_text(int code) {
  return code < 0 ? "killed by " + base::signal_name(-code) : "exit code " + std::to_string(code);
}

// "ddplaunch: error: rank 2 (pid 4712) failed: exit code 1, 3 s after the start"
EndOfRank end_of_our_own(std::string_view text) {
  constexpr std::string_view kFailed = " failed: ";
  EndOfRank end;
  const std::size_t failed = text.find(kFailed);
  end.is_hang = text.find("[DDP-H") != std::string_view::npos;
  end.rank = number_after(text, "rank ");
  end.text = failed == std::string_view::npos || end.is_hang ? text : text.substr(failed + kFailed.size());
  return end;
}

// "srun: error: node1: task 3: Exited with exit code 1"
EndOfRank end_of_srun(std::string_view text) {
  EndOfRank end;
  const std::size_t task = text.find(": task ");
  if (task == std::string_view::npos) return end;
  end.rank = number_after(text, ": task ");
  text.remove_prefix(task + 7);
  const std::size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return end;
  end.text = text.substr(colon + 2);
  if (end.text.starts_with("Exited with ")) end.text.erase(0, 12);
  return end;
}

struct Words {
  std::string_view words;
  bool begin_line = true;  // behind tags and times; otherwise they may be anywhere in it
  bool end_job = true;     // the job has failed if a launcher says them
};
constexpr Words kWords[] = {
    {.words = "ddplaunch: error: "},
    {.words = "srun: error: "},
    {.words = "slurmstepd: error: "},
    {.words = "mpirun noticed that process rank "},
    {.words = "mpirun detected that one or more processes exited"},
    {.words = "prterun detected that one or more processes exited"},
    {.words = "ChildFailedError", .begin_line = false},
    {.words = "Root Cause (first observed failure)", .begin_line = false},
    {.words = "failed (exitcode: ", .begin_line = false, .end_job = false},
    {.words = "will restart worker group", .begin_line = false, .end_job = false},
};

bool contains(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

bool are_said(const Words& one, std::string_view text) {
  return one.begin_line ? text.starts_with(one.words) : contains(text, one.words);
}

}  // namespace

const std::vector<std::string_view>& words_of_launchers() {
  static const std::vector<std::string_view> kAll = [] {
    std::vector<std::string_view> all;
    for (const Words& one : kWords) all.push_back(one.words);
    return all;
  }();
  return kAll;
}

bool is_said_by_launcher(std::string_view text) {
  return std::ranges::any_of(kWords, [&](const Words& one) { return are_said(one, text); });
}

void LauncherLines::keep(EndOfRank end, const LogPlace& at) {
  end.at = at;
  if (ends_.size() < kMostEnds && (end.rank || end.local_rank || end.is_hang)) ends_.push_back(std::move(end));
}

// The lines after an error tell more about it: "  | ValueError: x" quotes the rank.
void LauncherLines::add_own(std::string_view text, const LogPlace& at) {
  constexpr std::string_view kError = "ddplaunch: error: ";
  constexpr std::string_view kQuoted = "ddplaunch:   | ";
  if (text.starts_with(kError)) {
    EndOfRank end = end_of_our_own(text.substr(kError.size()));
    end.is_own = true;
    keep(std::move(end), at);
  } else if (text.starts_with("ddplaunch:   restart ")) {
    restarted_at_ = at.line;
  } else if (text.starts_with(kQuoted) && !ends_.empty()) {
    text.remove_prefix(kQuoted.size());
    EndOfRank& end = ends_.back();
    // An error that is not the last one may have been handled. Indented lines continue a message.
    const Cause* const cause = only_tells(text) ? nullptr : find_cause(text);
    if (cause != nullptr || (!end.is_error_quoted && !text.starts_with(' '))) end.cause = cause;
    if (!end.is_error_quoted || end.quoted.empty()) end.quoted = text;
  } else if (text.starts_with("ddplaunch:   its error:") && !ends_.empty()) {
    ends_.back().is_error_quoted = true;
  }
}

// torchrun writes one line per fact: "  rank      : 3 (local_rank: 3)", "  exitcode  : -9 (pid: 4711)".
void LauncherLines::add_to_table(std::string_view text, const LogPlace& at) {
  if (const auto time = field(text, "time")) time_ = read_line(*time).time;
  if (const auto rank = field(text, "rank")) {
    keep({.rank = number_after(*rank, ""),
          .local_rank = number_after(*rank, "(local_rank: "),
          .text = "",
          .at = at,
          .time = std::exchange(time_, {})},
         at);
  }
  const auto say_how = [&](std::string how) {
    if (!ends_.empty() && ends_.back().text.empty()) ends_.back().text = std::move(how);
  };
  const auto exit = field(text, "exitcode");
  if (const auto code = exit ? number_after(*exit, "") : std::nullopt) say_how(exit_text(*code));
  if (contains(text, "Process name: [[")) keep({.rank = number_after(text, "],"), .text = ""}, at);
  const std::size_t exit_code = text.find("Exit code: ");
  if (exit_code != std::string_view::npos) say_how("exit code " + base::trimmed(text.substr(exit_code + 11)));
}

void LauncherLines::add(std::string_view text, const LogPlace& at) {
  text = text.substr(0, kTextBytes);
  for (const Words& one : kWords) {
    if (one.end_job && are_said(one, text)) has_failed_ = true;
  }
  if (is_own_line(text)) return add_own(text, at);
  if (lines_left_ > 0) {
    --lines_left_;
    add_to_table(text, at);
  }
  if (contains(text, "will restart worker group")) restarted_at_ = at.line;
  if (contains(text, "Root Cause (first observed failure)") ||
      contains(text, "detected that one or more processes exited")) {
    lines_left_ = kTableLines;
  } else if (const auto code = number_after(text, "failed (exitcode: ")) {
    // Without more words, torchrun starts the workers again after it. The workers of other nodes get SIGTERM.
    if (failed_at_ > 0 && *code != -SIGTERM) restarted_at_ = failed_at_;
    failed_at_ = at.line;
    keep({.local_rank = number_after(text, "local_rank: "), .text = exit_text(*code)}, at);
  } else if (const std::size_t srun = text.find("srun: error: "); srun != std::string_view::npos) {
    keep(end_of_srun(text.substr(srun)), at);
  } else if (const auto rank = number_after(text, "mpirun noticed that process rank ")) {
    const std::size_t how = text.find(" exited on ");
    keep({.rank = rank, .text = how == std::string_view::npos ? "" : "killed by " + std::string(text.substr(how + 11))},
         at);
  }
}

}  // namespace ddp::launcher

#include "launcher/see/explain/explanation_text.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <vector>

#include "base/printable.h"
#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kShownBytes = 300;
constexpr std::size_t kShortBytes = 120;  // of a failure that is not the first one
constexpr std::size_t kMostGroups = 8;

using Json = nlohmann::ordered_json;

std::string first_line(const std::string& text, std::size_t most = kShownBytes) {
  return base::printable(text.substr(0, text.find('\n')), most);
}

std::string place_in_log(const LogPlace& at) {
  return base::printable(at.file) + (at.line > 0 ? ":" + std::to_string(at.line) : "");
}

std::string name_of(std::optional<int> rank, std::optional<int> local_rank) {
  return rank ? "rank " + std::to_string(*rank) : "local rank " + std::to_string(local_rank.value_or(0));
}

// "rank 3 failed first: ", or "first failure: " if the rank is unknown.
std::string headline(const Failure& failure, bool is_first) {
  if (!failure.rank && !failure.local_rank) return is_first ? "first failure: " : "failure: ";
  return name_of(failure.rank, failure.local_rank) + (is_first ? " failed first: " : " failed: ");
}

std::vector<int> other_ranks(const FailureGroup& group) {
  std::vector<int> others = group.ranks;
  const auto own = group.first.rank ? group.first.rank : group.first.local_rank;
  if (own) std::erase(others, *own);
  return others;
}

void add_cause(const Cause& cause, std::vector<std::string>& lines) {
  lines.push_back("  cause: " + std::string(cause.cause));
  lines.push_back("  try: " + std::string(cause.remedy));
  lines.push_back("  more: docs/reference/known-errors.md#" + std::string(cause.id));
}

void add_failure(const FailureGroup& group, const std::string& what, std::vector<std::string>& lines) {
  const Failure& first = group.first;
  lines.push_back(what + first_line(first.message));
  lines.push_back("  " + (first.place.empty() ? "" : "at " + base::printable(first.place) + ", ") + "in " +
                  place_in_log(first.at) + (first.time ? ", " + time_text(*first.time) : ""));
  if (first.cause != nullptr) add_cause(*first.cause, lines);
  const std::vector<int> others = other_ranks(group);
  if (!others.empty()) lines.push_back("  " + base::ranks_text(others) + " failed in the same way");
}

// Returns a line about failures that are not the first one.
std::string short_line(const FailureGroup& group, const std::string& what) {
  const std::string who = group.ranks.empty() ? "" : base::ranks_text(group.ranks) + ": ";
  return what + who + first_line(group.first.message, kShortBytes) + " (" + place_in_log(group.first.at) + ")";
}

void add_short_lines(const std::vector<FailureGroup>& groups, std::size_t from, const std::string& what,
                     std::vector<std::string>& lines) {
  for (std::size_t i = from; i < groups.size(); ++i) {
    if (i >= from + kMostGroups) {
      lines.push_back(what + "and " + base::counted(static_cast<std::int64_t>(groups.size() - i), "more kind"));
      return;
    }
    lines.push_back(short_line(groups[i], what));
  }
}

// Says what the first failure means, although it is not certain that it was the first one of the job.
void add_meaning(const std::vector<FailureGroup>& groups, std::vector<std::string>& lines) {
  const Cause* const cause = groups.empty() ? nullptr : groups.front().first.cause;
  if (cause == nullptr) return;
  lines.push_back("  it means: " + std::string(cause->cause));
  lines.push_back("  try: " + std::string(cause->remedy));
}

void add_first_failure(const Explanation& explanation, std::vector<std::string>& lines) {
  const auto& failures = explanation.failures;
  const FailureGroup& group = failures.front();
  const bool is_alone = failures.size() == 1 && other_ranks(group).empty() && explanation.secondary.empty();
  add_failure(group, headline(group.first, !is_alone && group.is_ordered), lines);
  if (group.first.cause == nullptr) {
    const bool is_exception = group.first.form != Form::words;
    lines.push_back(std::string("  no known error has these words") +
                    (is_exception ? ": it is an error of the program itself" : ""));
  }
  add_short_lines(failures, 1, "then: ", lines);
}

// Says what was seen of a cause that is not in the logs.
void add_unknown(const Explanation& explanation, std::vector<std::string>& lines) {
  lines.emplace_back("the cause is not in these logs");
  if (explanation.hang && !explanation.hang->text.empty()) lines.push_back("  seen: " + explanation.hang->text);
  if (!explanation.end || explanation.end->text.empty()) return;
  const EndOfRank& end = *explanation.end;
  lines.push_back("  seen: " + name_of(end.rank, end.local_rank) + " ended first: " + first_line(end.text) + " (" +
                  place_in_log(end.at) + ")");
}

std::vector<std::string> lines_of(const Explanation& explanation) {
  std::vector<std::string> lines;
  const auto& failures = explanation.failures;
  if (!failures.empty() && explanation.is_ordered) {
    add_first_failure(explanation, lines);
  } else if (!failures.empty()) {
    lines.emplace_back("these failures have no order in the logs, so that the first one is unknown:");
    for (std::size_t i = 0; i < std::min(failures.size(), kMostGroups); ++i) {
      add_failure(failures[i], headline(failures[i].first, false), lines);
    }
  } else if (explanation.end && explanation.end->is_hang) {
    lines.push_back("ddplaunch found: " + first_line(explanation.end->text));
    lines.push_back("  in " + place_in_log(explanation.end->at));
  } else if (explanation.hang && explanation.hang->is_certain) {
    lines.push_back(explanation.hang->text);
    lines.push_back("  try: " + explanation.hang->remedy);
  } else {
    add_unknown(explanation, lines);
  }
  const bool is_open = failures.empty() && !explanation.is_certain();
  add_short_lines(explanation.secondary, 0, is_open ? "  seen: " : "then: ", lines);
  if (is_open) add_meaning(explanation.secondary, lines);
  if (!explanation.is_certain())
    add_short_lines(explanation.caught, 0, "  seen, but it was or may have been handled: ", lines);
  if (is_open && explanation.secondary.empty()) add_meaning(explanation.caught, lines);
  if (lines.size() == 1 && is_open) {
    const auto count = static_cast<std::int64_t>(explanation.lines);
    lines.push_back(count == 0 ? "  seen: no line at all" : "  seen: no error in " + base::counted(count, "line"));
  }
  for (const std::string& missing : explanation.missing) lines.push_back("  missing: " + missing);
  return lines;
}

Json json_of(const FailureGroup& group) {
  const Failure& first = group.first;
  Json json = {{"rank", nullptr},
               {"local_rank", nullptr},
               {"ranks", group.ranks},
               {"cause", nullptr},
               {"message", base::printable(first.message, kShownBytes)},
               {"place", base::printable(first.place)},
               {"file", base::printable(first.at.file)},
               {"line", first.at.line},
               {"time", first.time ? Json(time_text(*first.time)) : Json()}};
  if (first.rank) json["rank"] = *first.rank;
  if (first.local_rank) json["local_rank"] = *first.local_rank;
  if (first.cause != nullptr) json["cause"] = first.cause->id;
  return json;
}

Json json_of(const std::vector<FailureGroup>& groups) {
  Json list = Json::array();
  for (const FailureGroup& group : groups) list.push_back(json_of(group));
  return list;
}

}  // namespace

std::string explanation_text(const Explanation& explanation) {
  return base::join(lines_of(explanation), "\n") + "\n";
}

std::string explanation_json(const Explanation& explanation) {
  Json json = {{"certain", explanation.is_certain()},
               {"cause", nullptr},
               {"rank", nullptr},
               {"explanation", nullptr},
               {"remedy", nullptr}};
  if (const Cause* cause = explanation.cause()) {
    json["cause"] = cause->id;
    json["explanation"] = cause->cause;
    json["remedy"] = cause->remedy;
  }
  if (!explanation.failures.empty() && explanation.is_ordered) {
    const FailureGroup& group = explanation.failures.front();
    if (group.first.rank && (group.is_ordered || group.ranks.size() < 2)) json["rank"] = *group.first.rank;
  }
  json["failures"] = json_of(explanation.failures);
  json["secondary"] = json_of(explanation.secondary);
  json["caught"] = json_of(explanation.caught);
  json["hang"] = nullptr;
  if (explanation.hang) {
    json["hang"] = {{"certain", explanation.hang->is_certain},
                    {"ranks", explanation.hang->ranks},
                    {"text", base::printable(explanation.hang->text)}};
  } else if (explanation.end && explanation.end->is_hang) {
    json["hang"] = {{"certain", true}, {"ranks", Json::array()}, {"text", base::printable(explanation.end->text)}};
    if (explanation.end->rank) json["hang"]["ranks"].push_back(*explanation.end->rank);
  }
  json["missing"] = explanation.missing;
  return json.dump(2) + "\n";
}

}  // namespace ddp::launcher

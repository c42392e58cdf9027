#include "launcher/start/causes/cause_table.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace ddp::launcher {
namespace {

constexpr std::string_view kAnyText = "…";

constexpr std::array kGroups = {
    CauseGroup{causes_of_programs, "programs", "Programs", "程序"},
    CauseGroup{causes_of_data, "data", "Data and checkpoints", "数据与 checkpoint"},
    CauseGroup{causes_of_data_parallel, "data-parallel", "Data parallelism", "数据并行"},
    CauseGroup{causes_of_communication, "communication", "Communication", "通信"},
    CauseGroup{causes_of_clusters, "clusters", "Launchers and clusters", "启动器与集群"},
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns whether what follows `before` is quoted, or is the name of an error within a sentence.
bool is_quoted(std::string_view before, bool names_error) {
  if (before.empty()) return false;
  if (std::string_view("'\"`").find(before.back()) != std::string_view::npos) return true;
  for (const std::string_view opening : {"='", "=\""}) {
    const std::size_t at = before.rfind(opening);
    if (at != std::string_view::npos && before.find(opening.back(), at + opening.size()) == std::string_view::npos) {
      return true;
    }
  }
  return names_error && before.size() > 1 && before.back() == ' ' && is_letter(before[before.size() - 2]);
}

// Holds all rows, and the words by which they are found.
class Table {
 public:
  Table() : finder_(fill()) {}

  const std::vector<const Cause*>& rows() const { return rows_; }
  const std::vector<std::string_view>& words() const { return words_; }

  const Cause* find(std::string_view line) const {
    std::size_t best = rows_.size();
    WordFinder::Place place;
    std::vector<bool> done;  // patterns that have been compared. A line may repeat its words
    while (const auto word = finder_.next(line, place)) {
      done.resize(keys_.size());
      if (done[*word]) continue;
      done[*word] = true;
      const Key& key = keys_[*word];
      if (key.row < best && matches(key.pattern, line)) best = key.row;
    }
    return best < rows_.size() ? rows_[best] : nullptr;
  }

 private:
  struct Key {
    std::string_view word;
    std::string_view pattern;
    std::size_t row = 0;
  };

  WordFinder fill() {
    for (const CauseGroup& group : kGroups) {
      for (const Cause& cause : group.causes()) {
        for (const std::string_view pattern : cause.patterns) {
          if (!pattern.empty()) keys_.push_back({longest_part(pattern), pattern, rows_.size()});
        }
        rows_.push_back(&cause);
      }
    }
    for (const Key& key : keys_) words_.push_back(key.word);
    return WordFinder(words_);
  }

  std::vector<const Cause*> rows_;
  std::vector<Key> keys_;
  std::vector<std::string_view> words_;  // of the keys
  WordFinder finder_;
};

const Table& table() {
  static const Table kTable;
  return kTable;
}

}  // namespace

std::span<const CauseGroup> cause_groups() {
  return kGroups;
}

std::span<const Cause* const> all_causes() {
  return table().rows();
}

const Cause* find_cause_by_id(std::string_view id) {
  const auto& rows = table().rows();
  const auto found = std::ranges::find(rows, id, &Cause::id);
  return found == rows.end() ? nullptr : *found;
}

std::span<const std::string_view> words_of_causes() {
  return table().words();
}

bool matches(std::string_view pattern, std::string_view line) {
  bool is_first = line.find_first_of("{\"") != line.find_first_not_of(' ');  // JSON quotes everything
  const std::string_view first_word = pattern.substr(0, pattern.find(' '));
  const bool names_error = first_word.ends_with("Error:") && first_word != "Error:";
  while (true) {
    const std::size_t end = pattern.find(kAnyText);
    const std::size_t at = line.find(pattern.substr(0, end));
    if (at == std::string_view::npos) return false;
    if (std::exchange(is_first, false) && is_quoted(line.substr(0, at), names_error)) return false;
    if (end == std::string_view::npos) return true;
    line.remove_prefix(at + end);
    pattern.remove_prefix(end + kAnyText.size());
  }
}

std::string_view longest_part(std::string_view pattern) {
  std::string_view longest;
  while (true) {
    const std::size_t end = pattern.find(kAnyText);
    const std::string_view part = pattern.substr(0, end);
    if (part.size() > longest.size()) longest = part;
    if (end == std::string_view::npos) return longest;
    pattern.remove_prefix(end + kAnyText.size());
  }
}

const Cause* find_cause(std::string_view line) {
  return table().find(line);
}

const Cause* find_cause_in(std::span<const std::string> lines) {
  const Cause* found = nullptr;
  for (const std::string& line : lines) found = better_cause(found, find_cause(line));
  return found;
}

const Cause* better_cause(const Cause* one, const Cause* other) {
  if (one == nullptr || other == nullptr) return one == nullptr ? other : one;
  if (one->proof != other->proof) return one->proof < other->proof ? one : other;
  const auto& rows = table().rows();
  return std::ranges::find(rows, one) <= std::ranges::find(rows, other) ? one : other;
}

}  // namespace ddp::launcher

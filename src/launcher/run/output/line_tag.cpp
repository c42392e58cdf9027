#include "launcher/run/output/line_tag.h"

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>

#include "base/printable.h"
#include "base/text.h"

namespace ddp::launcher {
namespace {

// The list excludes red, which is the colour of errors, and colours that are hard to read on black or on white.
constexpr std::array kColors = {"\x1b[36m", "\x1b[32m", "\x1b[33m", "\x1b[35m", "\x1b[34m", "\x1b[96m", "\x1b[92m"};
constexpr const char* kSeveralColor = "\x1b[1m";
constexpr const char* kColorEnd = "\x1b[0m";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::vector<int> ranks_of(RankBits bits) {
  std::vector<int> ranks;
  for (std::size_t word = 0; word < bits.size(); ++word) {
    for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
      ranks.push_back(static_cast<int>(word * 64) + std::countr_zero(left));
    }
  }
  return ranks;
}

LineTag::LineTag(const std::string& format, const Names& names, bool color)
    : names_{base::printable(names.node), base::printable(names.role)}, color_(color) {
  parse(format);
}

void LineTag::add_text(std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().field != Field::text) parts_.push_back({Field::text, ""});
  parts_.back().text += text;
}

void LineTag::parse(const std::string& format) {
  struct Name {
    std::string_view name;
    Field field;
  };
  constexpr std::array<Name, 6> kNames = {{{"rank", Field::rank},
                                           {"local_rank", Field::local_rank},
                                           {"node", Field::node},
                                           {"role", Field::role},
                                           {"role_name", Field::role},
                                           {"time", Field::time}}};
  std::string_view rest = format;
  while (!rest.empty()) {
    const std::size_t dollar = std::min(rest.find('$'), rest.size());
    add_text(rest.substr(0, dollar));
    rest.remove_prefix(dollar);
    if (rest.empty()) return;
    if (rest.starts_with("$$")) {
      add_text("$");
      rest.remove_prefix(2);
      continue;
    }
    const bool braces = rest.starts_with("${");
    const std::size_t begin = braces ? 2 : 1;
    std::size_t end = begin;
    while (end < rest.size() && is_name_character(rest[end])) ++end;
    const std::string_view name = rest.substr(begin, end - begin);
    const bool closed = !braces || (end < rest.size() && rest[end] == '}');
    const auto* known = std::ranges::find_if(kNames, [&](const Name& one) { return one.name == name; });
    const std::size_t length = std::max<std::size_t>(end + (braces && closed ? 1 : 0), 1);
    if (closed && known != kNames.end()) {
      parts_.push_back({known->field, ""});
      uses_time_ = uses_time_ || known->field == Field::time;
    } else {
      add_text(rest.substr(0, length));
    }
    rest.remove_prefix(length);
  }
}

void LineTag::set_rank(int local_rank, int rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  if (ranks_.size() <= index) ranks_.resize(index + 1, -1);
  ranks_[index] = rank;
  forget();
}

void LineTag::set_node(const std::string& node) {
  names_.node = base::printable(node);
  forget();
}

void LineTag::set_time(std::chrono::system_clock::time_point now) {
  const std::time_t second = std::chrono::system_clock::to_time_t(now);
  if (!uses_time_ || second == second_) return;
  second_ = second;
  std::tm local{};
  ::localtime_r(&second, &local);
  std::array<char, 16> text{};
  time_.assign(text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &local));
  forget();
}

void LineTag::forget() {
  cached_.assign(cached_.size(), std::nullopt);
  several_.reset();
}

int LineTag::rank_of(int local_rank) const {
  const auto index = static_cast<std::size_t>(local_rank);
  return index < ranks_.size() && ranks_[index] >= 0 ? ranks_[index] : local_rank;
}

std::string LineTag::render(std::span<const int> local_ranks) const {
  std::vector<int> ranks;
  for (const int local_rank : local_ranks) ranks.push_back(rank_of(local_rank));
  std::ranges::sort(ranks);
  std::string text;
  for (const Part& part : parts_) {
    if (part.field == Field::text) text += part.text;
    if (part.field == Field::rank) text += base::short_rank_list(ranks);
    if (part.field == Field::local_rank) text += base::short_rank_list(local_ranks);
    if (part.field == Field::node) text += names_.node;
    if (part.field == Field::role) text += names_.role;
    if (part.field == Field::time) text += time_;
  }
  return text;
}

std::string LineTag::render_colored(std::span<const int> local_ranks) const {
  std::string text = render(local_ranks);
  if (!color_ || text.empty()) return text;
  const char* color = kSeveralColor;
  if (local_ranks.size() == 1) {
    color = kColors[static_cast<std::size_t>(rank_of(local_ranks.front())) % kColors.size()];
  }
  return color + text + kColorEnd;
}

std::string_view LineTag::of_rank(int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  if (cached_.size() <= index) cached_.resize(index + 1);
  if (!cached_[index]) cached_[index] = render_colored({&local_rank, 1});
  return *cached_[index];
}

std::string_view LineTag::of_ranks(RankBits bits) {
  if (!several_ || !std::equal(bits.begin(), bits.end(), several_bits_.begin(), several_bits_.end())) {
    several_bits_.assign(bits.begin(), bits.end());
    several_ = render_colored(ranks_of(bits));
  }
  return *several_;
}

}  // namespace ddp::launcher

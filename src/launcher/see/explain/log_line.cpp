#include "launcher/see/explain/log_line.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLongestTag = 200;  // bytes
constexpr int kMostRanks = 1'000'000;
constexpr std::size_t kLevelBytes = 60;  // of the begin of a line, where a program writes its level
constexpr std::string_view kLevels[] = {"INFO ", "INFO:", "[INFO]", "DEBUG"};
constexpr std::string_view kLevelsOfTrouble[] = {"WARNING ", "Warning:", "[WARNING]", "ERROR ", "- ERROR"};
// Python's logging writes "ERROR:name:message".
constexpr std::string_view kLevelsOfLogging[] = {"ERROR:", "WARNING:", "CRITICAL:"};
constexpr std::string_view kTelling[] = {"caught: ", "- retry",  "retrying", ", trying",     "skipping",
                                         "skipped",  "ignoring", "disabled", "falling back", "warnings.warn("};
constexpr std::int64_t kSecond = 1'000'000;  // microseconds
constexpr std::int64_t kDay = 24 * 3600 * kSecond;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Takes texts from the front of a line. A function that returns false or std::nullopt takes nothing.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void skip(std::string_view any_of) { rest_.remove_prefix(std::min(rest_.find_first_not_of(any_of), rest_.size())); }

  // Takes a number of `least` to `most` digits.
  std::optional<int> number(std::size_t least = 1, std::size_t most = 6) {
    std::size_t digits = 0;
    int value = 0;
    while (digits < rest_.size() && is_digit(rest_[digits]) && digits < most) {
      value = value * 10 + (rest_[digits++] - '0');
    }
    if (digits < least) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }

  // Takes the text up to `end`, and `end`.
  std::optional<std::string_view> until(std::string_view end, std::size_t most = kLongestTag) {
    const std::size_t at = rest_.substr(0, most + end.size()).find(end);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return text;
  }

 private:
  std::string_view rest_;
};

// Takes "12:00:03", "12:00:03.123456" or "12:00:03,123". Returns microseconds.
std::optional<std::int64_t> take_clock(Cursor& line) {
  Cursor cursor = line;
  const auto hours = cursor.number(2, 2);
  if (!hours || !cursor.take(":")) return std::nullopt;
  const auto minutes = cursor.number(2, 2);
  if (!minutes || !cursor.take(":")) return std::nullopt;
  const auto seconds = cursor.number(2, 2);
  if (!seconds || *hours > 24 || *minutes > 59 || *seconds > 60) return std::nullopt;
  std::int64_t time = ((*hours * 60 + *minutes) * 60 + std::int64_t{*seconds}) * kSecond;
  Cursor fraction = cursor;
  if (fraction.take(".") || fraction.take(",")) {
    const std::string_view digits = fraction.rest();
    if (fraction.number(1, 6)) {
      std::int64_t unit = kSecond;
      for (char c : digits.substr(0, digits.size() - fraction.rest().size())) time += (c - '0') * (unit /= 10);
      fraction.skip("0123456789");
      cursor = fraction;
    }
  }
  line = cursor;
  return time;
}

std::int64_t begin_of_day(int month, int day) {
  return (month * 31 + std::int64_t{day}) * kDay;
}

// Skips "Wed Nov  4 12:00:03 2026" of mpirun --timestamp-output, if a tag follows.
void skip_ctime(Cursor& line) {
  constexpr std::size_t kBytes = 24;
  const std::string_view text = line.rest();
  if (text.size() <= kBytes || text[kBytes] != '[' || text[3] != ' ' || text[13] != ':' || text[16] != ':') return;
  line.take(text.substr(0, kBytes));
}

// Takes "2026-11-04 12:00:03,123", "2026-11-04T12:00:03.1Z", "2026-11-04_12:00:03" or "12:00:03".
std::optional<LogTime> take_time(Cursor& line) {
  Cursor cursor = line;
  LogTime time{LogTime::Clock::daily, 0};
  if (cursor.number(4, 4) && (cursor.take("-") || cursor.take("/"))) {
    const auto month = cursor.number(2, 2);
    if (!month || !(cursor.take("-") || cursor.take("/"))) return std::nullopt;
    const auto day = cursor.number(2, 2);
    if (!day || !(cursor.take(" ") || cursor.take("T") || cursor.take("_"))) return std::nullopt;
    time = {LogTime::Clock::local, begin_of_day(*month, *day)};
  } else {
    cursor = line;
  }
  const auto clock = take_clock(cursor);
  if (!clock) return std::nullopt;
  time.microseconds += *clock;
  Cursor zone = cursor;
  if (zone.take("Z")) {
    time.clock = LogTime::Clock::utc;
    cursor = zone;
  } else if (const bool is_before = zone.take("-"); is_before || zone.take("+")) {
    const auto hours = zone.number(2, 2);
    if (hours && zone.take(":")) {
      if (const auto minutes = zone.number(2, 2)) {
        const std::int64_t offset = (*hours * 60 + std::int64_t{*minutes}) * 60 * kSecond;
        time = {LogTime::Clock::utc, time.microseconds + (is_before ? offset : -offset)};
        cursor = zone;
      }
    }
  }
  line = cursor;
  return time;
}

// Takes the digits at the end of a name, as in "default3".
std::optional<int> number_at_end(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  const auto number = base::parse_integer(name.substr(begin), 0, kMostRanks);
  return number && begin > 0 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
  });
}

// torchrun writes the role and the local rank, and accepts a template such as [${node}:${local_rank}].
bool is_name_of_worker(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view begin = name.substr(0, colon);
  return is_name(begin) && !name.starts_with("rank") && number_at_end(name) &&
         (colon == std::string_view::npos || name.find_first_not_of("0123456789", colon + 1) == std::string_view::npos);
}

// These functions return what follows the tag of a launcher or of PyTorch, or std::nullopt if there is none. Here it is
// one in brackets.
std::optional<Cursor> behind_bracket_tag(Cursor cursor, LoggedLine& line) {
  const auto name = cursor.take("[") ? cursor.until("]") : std::nullopt;
  if (!name) return std::nullopt;
  // mpirun writes the number of the job and the rank, or a name before them.
  if (cursor.take("<stdout>:") || cursor.take("<stderr>:")) {
    const std::size_t comma = name->rfind(',');
    const auto rank = base::parse_integer(name->substr(std::min(comma, name->size() - 1) + 1), 0, kMostRanks);
    if (comma == std::string_view::npos || !rank) return std::nullopt;
    line.rank = static_cast<int>(*rank);
    if (name->find('@') != std::string_view::npos) cursor.take(" ");  // Open MPI 5
  } else if (name->starts_with("pod/")) {
    cursor.take(" ");
  } else if (is_name_of_worker(*name) && cursor.take(":")) {
    line.local_rank = number_at_end(*name);
  } else if (const auto rank = base::parse_integer(name->substr(0, name->find_first_of(",-")), 0, kMostRanks);
             rank && name->find_first_not_of("0123456789,- ") == std::string_view::npos && cursor.take(" ")) {
    line.rank = static_cast<int>(*rank);
  } else {
    return std::nullopt;
  }
  return cursor;
}

// "  3: " of srun.
std::optional<Cursor> behind_srun_tag(Cursor cursor, LoggedLine& line) {
  cursor.skip(" ");
  const auto rank = cursor.number();
  if (!rank || !cursor.take(":") || !(cursor.take(" ") || cursor.rest().empty())) return std::nullopt;
  line.rank = rank;
  return cursor;
}

// "worker-3  | " of Docker.
std::optional<Cursor> behind_docker_tag(Cursor cursor) {
  const auto name = cursor.until(" ", 64);
  if (!name || !is_name(*name) || !number_at_end(*name)) return std::nullopt;
  cursor.skip(" ");
  return cursor.take("| ") ? std::optional(cursor) : std::nullopt;
}

// "fa88a9df [rank=4] || " of Determined.
std::optional<Cursor> behind_determined_tag(Cursor cursor, LoggedLine& line) {
  const auto rank = cursor.until("[rank=", 40) ? cursor.number() : std::nullopt;
  if (!rank || !cursor.take("] || ")) return std::nullopt;
  line.rank = rank;
  return cursor;
}

// "trainer-0 trainer [default3]:". stern and other readers of Kubernetes write the pod and the container first.
std::optional<Cursor> behind_pod_tag(Cursor cursor, LoggedLine& line) {
  const std::string_view text = cursor.rest();
  const auto names = cursor.until(" [", 128);
  if (!names) return std::nullopt;
  const std::size_t space = names->find(' ');
  const bool are_names =
      is_name(names->substr(0, space)) && (space == std::string_view::npos || is_name(names->substr(space + 1)));
  const auto behind = are_names ? behind_bracket_tag(Cursor(text.substr(names->size() + 1)), line) : std::nullopt;
  return line.local_rank ? behind : std::nullopt;
}

std::optional<Cursor> behind_launcher_tag(Cursor cursor, LoggedLine& line) {
  const std::string_view before = cursor.rest();
  if (before.empty()) return std::nullopt;
  const char first = before.front();
  auto behind = behind_determined_tag(cursor, line);
  if (!behind && first == '[') {
    behind = behind_bracket_tag(cursor, line);
  } else if (!behind && (is_digit(first) || first == ' ')) {
    behind = behind_srun_tag(cursor, line);
  } else if (!behind) {
    behind = behind_docker_tag(cursor);
    if (!behind) behind = behind_pod_tag(cursor, line);
  }
  if (behind) line.tag = before.substr(0, before.size() - behind->rest().size());
  return behind;
}

// "[rank3]:" or "[rank3]: ".
std::optional<Cursor> behind_rank_of_torch(Cursor cursor, LoggedLine& line) {
  const auto rank = cursor.take("[rank") ? cursor.number() : std::nullopt;
  if (!rank || !cursor.take("]:")) return std::nullopt;
  cursor.take(" ");
  line.rank = rank;
  return cursor;
}

// Takes the prefix of PyTorch's C++ code or of glog: "[E1104 12:00:03.123 file.cpp:12] ", "[W socket.cpp:1] " or
// "E1104 12:00:03.123 4711 file.py:12] ".
void take_glog_prefix(Cursor& cursor, LoggedLine& line) {
  Cursor inside = cursor;
  const bool has_bracket = inside.take("[");
  if (!inside.take("E") && !inside.take("W") && !inside.take("I") && !inside.take("F")) return;
  const auto month = inside.number(2, 2);
  const auto day = month ? inside.number(2, 2) : std::nullopt;
  if ((month && !day) || (!month && !has_bracket) || !inside.take(" ")) return;
  const auto clock = day ? take_clock(inside) : std::nullopt;
  const auto file = inside.until("] ");
  if (!file || file->find(':') == std::string_view::npos) return;
  if (clock && !line.time) line.time = LogTime{LogTime::Clock::local, begin_of_day(*month, *day) + *clock};
  cursor = inside;
}

// Takes "node1:4711:4720 [3] " of NCCL, if "NCCL" follows.
void take_nccl_prefix(Cursor& cursor) {
  const std::string_view text = cursor.rest();
  const std::size_t at = text.substr(0, kLongestTag).find("] NCCL ");
  if (at == std::string_view::npos || text.find(':') > at || text.substr(0, at).find('[') == std::string_view::npos)
    return;
  cursor.take(text.substr(0, at + 2));
}

}  // namespace

LoggedLine read_line(std::string_view text) {
  LoggedLine line;
  Cursor cursor(text);
  skip_ctime(cursor);
  bool goes_on = true;
  while (goes_on && !cursor.rest().empty()) {
    goes_on = false;
    if (const auto behind = line.tag.empty() ? behind_launcher_tag(cursor, line) : std::nullopt) {
      cursor = *behind;
      goes_on = true;
    }
    Cursor timed = cursor;
    const bool has_bracket = timed.take("[");
    if (!line.time && (line.time = take_time(timed))) {
      if (has_bracket) timed.take("]");
      timed.take(":");
      timed.take(" ");
      cursor = timed;
      goes_on = true;
    }
  }
  // A progress bar may stand before PyTorch's tag, without a line's end.
  if (const std::size_t tag = cursor.rest().find("[rank"); tag != std::string_view::npos && tag > 0) {
    const Cursor tagged(cursor.rest().substr(tag));
    LoggedLine ignored;
    if (behind_rank_of_torch(tagged, ignored)) cursor = tagged;
  }
  line.body = cursor.rest();
  while (const auto behind = behind_rank_of_torch(cursor, line)) cursor = *behind;
  take_glog_prefix(cursor, line);
  take_nccl_prefix(cursor);
  line.text = cursor.rest();
  // torch.multiprocessing.spawn() quotes the traceback of a process.
  if (Cursor spawned(line.text); spawned.take("-- Process ")) {
    const auto process = spawned.number();
    if (process && spawned.take(" terminated with ")) line.local_rank = process;
  }
  return line;
}

bool logs_trouble(std::string_view text) {
  const std::string_view begin = text.substr(0, kLevelBytes);
  const auto is_of_logging = [&](std::string_view level) {
    return begin.starts_with(level) && begin.size() > level.size() && begin[level.size()] != ' ';
  };
  return std::ranges::any_of(kLevelsOfLogging, is_of_logging) ||
         std::ranges::any_of(kLevelsOfTrouble,
                             [&](std::string_view level) { return begin.find(level) != std::string_view::npos; });
}

bool only_tells(std::string_view text) {
  const auto has = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
  if (has("NCCL WARN") || has("torch.distributed.") || has("WARNING:torch.")) return false;
  const std::string_view begin = text.substr(0, kLevelBytes);
  return logs_trouble(text) ||
         std::ranges::any_of(kLevels,
                             [&](std::string_view level) { return begin.find(level) != std::string_view::npos; }) ||
         std::ranges::any_of(kTelling, has);
}

std::string time_text(const LogTime& time) {
  const std::int64_t day = time.microseconds / kDay;
  const std::int64_t second = time.microseconds % kDay / kSecond;
  std::array<char, 32> text{};
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  if (time.clock != LogTime::Clock::daily) {
    const std::int64_t month = (day - 1) / 31;
    std::snprintf(text.data(), text.size(), "%02d-%02d ", number(month), number(day - month * 31));
  }
  std::string result = text.data();
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d", number(second / 3600), number(second / 60 % 60),
                number(second % 60));
  return result + text.data();
}

}  // namespace ddp::launcher

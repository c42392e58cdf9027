#include "store/client/wait_report.h"

#include <cctype>
#include <climits>

#include "base/text.h"

namespace ddp::store {
namespace {

// Parses the ranges of a list, without `own`. Text that is no list of ranks is shown unchanged.
struct RankList {
  std::string text;
  bool several = false;
};

RankList read_list(const std::string& list, std::optional<int> own) {
  std::vector<std::string> parts;
  bool several = false;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    if (first > last) return;
    several = several || first < last;
    parts.push_back(first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last));
  };
  for (std::string part : base::split(list, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    if (part.empty()) continue;
    const auto dash = part.find('-');
    const auto first = base::parse_integer(part.substr(0, dash), 0, INT_MAX);
    const auto last = dash == std::string::npos ? first : base::parse_integer(part.substr(dash + 1), 0, INT_MAX);
    if (!first || !last) {
      parts.push_back(part);
    } else if (own && *first <= *own && *own <= *last) {
      add(*first, *own - 1);
      add(*own + 1, *last);
    } else {
      add(*first, *last);
    }
  }
  return {base::join(parts, ", "), several || parts.size() > 1};
}

}  // namespace

std::string describe(const WaitReport& report, std::optional<int> own) {
  const RankList waiting = read_list(report.waiting, own);
  const bool anybody = !waiting.text.empty();
  struct Clause {
    RankList ranks;
    std::string one;
    std::string many;
  };
  const Clause clauses[] = {
      {waiting, " waits for it too", " wait for it too"},
      {read_list(report.elsewhere, own),
       anybody ? " is connected but does not" : " is connected but does not wait for it",
       anybody ? " are connected but do not" : " are connected but do not wait for it"},
      {read_list(report.never, own), " has not arrived", " have not arrived"},
  };
  std::vector<std::string> parts;
  for (const Clause& clause : clauses) {
    if (clause.ranks.text.empty()) continue;
    parts.push_back((clause.ranks.several ? "ranks " : "rank ") + clause.ranks.text +
                    (clause.ranks.several ? clause.many : clause.one));
  }
  if (parts.empty()) return "";
  std::string text = base::join(parts, "; ") + ".";
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace ddp::store

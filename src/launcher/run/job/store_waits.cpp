#include "launcher/run/job/store_waits.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kShownKey = 100;  // bytes

// Names the function that waits, and for which rank.
struct Meaning {
  std::string call;
  std::string awaited;
};

bool is_number(std::string_view text) {
  return base::parse_integer(text, 0, 1 << 30).has_value();
}

// Returns "A//B//C" as {"A", "B", "C"}. PyTorch joins the names of stores within stores in this way.
std::vector<std::string_view> levels_of(std::string_view key) {
  std::vector<std::string_view> levels;
  for (std::size_t end = key.find("//"); end != std::string_view::npos; end = key.find("//")) {
    levels.push_back(key.substr(0, end));
    key.remove_prefix(end + 2);
  }
  levels.push_back(key);
  return levels;
}

// Reads a key of PyTorch, if this is one:
//
//   /default_pg/0//cpu//0/1        rank 1 has not connected the ranks of the first group (Gloo)
//   /default_pg/0//7//cpu//0/1     the same for the second rank of group 7
//   /default_pg/0//cuda//0         the first rank has not begun NCCL
//   /rpc_prefix_0/0/1              rank 1 has not called init_rpc
//   ...store_based_barrier_key...  a rank has not created the group
std::optional<Meaning> meaning_of(std::string_view key) {
  if (key.find("store_based_barrier_key") != std::string_view::npos)
    return Meaning{"the creation of a process group", ""};
  const std::vector<std::string_view> levels = levels_of(key);
  const std::string_view last = levels.back();
  const std::string_view number = last.substr(last.rfind('/') + 1);
  if (!is_number(number)) return std::nullopt;
  if (levels.size() == 1) {
    const bool is_rpc = key.substr(0, 12).find("rpc_prefix_") != std::string_view::npos;
    return is_rpc ? std::optional(Meaning{"init_rpc", "rank " + std::string(number)}) : std::nullopt;
  }
  if (levels.size() < 3 || levels.front().find("default_pg") == std::string_view::npos) return std::nullopt;
  const bool is_first = levels.size() == 3;
  const std::string group = is_first ? "" : " of group " + base::printable(levels[levels.size() - 3], kShownKey);
  const bool is_gloo = number.size() != last.size();
  return Meaning{is_gloo ? (is_first ? "init_process_group" : "new_group") : "the first operation of NCCL",
                 "rank " + std::string(number) + group};
}

}  // namespace

std::string describe(const store::LongWait& wait, std::chrono::nanoseconds lasted) {
  const bool are_known = !wait.who.waiting.empty();
  const bool is_one = are_known ? wait.who.waiting.find_first_of(",-") == std::string::npos : wait.clients == 1;
  const auto meaning = meaning_of(wait.key);
  const std::string key = "key \"" + base::printable(wait.key, kShownKey) + "\"";
  std::string text = are_known ? (is_one ? "rank " : "ranks ") + wait.who.waiting
                               : base::counted(wait.clients, "client") + " of the store";
  text += is_one ? " has waited" : " have waited";
  text += meaning ? " in " + meaning->call + (meaning->awaited.empty() ? "" : " for " + meaning->awaited)
                  : " in the store for " + key;
  text += " for " + base::human_duration(std::chrono::duration_cast<std::chrono::seconds>(lasted));
  text += base::rank_clause(wait.who.absent, "is not connected to the store", "are not connected to the store");
  text += base::rank_clause(wait.who.elsewhere, "is connected and does not wait for it",
                            "are connected and do not wait for it");
  return text + (meaning ? " (" + key + ")" : "");
}

std::vector<std::string> StoreWaits::add(const std::vector<store::LongWait>& waits, store::TimePoint now) {
  std::vector<std::string> sentences;
  for (const store::LongWait& wait : waits) {
    Entry& entry = entries_.try_emplace(wait.key, Entry{wait.since, now, false}).first->second;
    entry.seen_at = now;
    const auto lasted = now - entry.since;
    if (entry.is_reported || lasted < least_ || reports_ >= limits::kStoreWaitReports) continue;
    entry.is_reported = true;
    ++reports_;
    sentences.push_back(describe(wait, lasted));
  }
  std::erase_if(entries_, [&](const auto& entry) { return now - entry.second.seen_at > limits::kStoreWaitGap; });
  return sentences;
}

}  // namespace ddp::launcher

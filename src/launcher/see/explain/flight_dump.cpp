#include "launcher/see/explain/flight_dump.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "base/text.h"
#include "launcher/see/explain/plain_value.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::size_t kMostTensors = 64;  // of a call. The elements of more tensors are not counted
constexpr std::size_t kMostMembers = 1'000'000;

std::optional<int> integer_at(std::string_view text, std::size_t begin) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  const auto number = base::parse_integer(text.substr(begin, end - begin), 0, std::numeric_limits<int>::max());
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Returns the number of elements of all tensors, whose sizes are "[[4, 2], [3]]".
std::optional<std::int64_t> elements_of(const PlainValue& tensors) {
  if (!tensors.is(PlainValue::Kind::list) || tensors.size() > kMostTensors) return std::nullopt;
  double elements = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PlainValue dimensions = tensors.item(i);
    double product = 1;
    for (std::size_t k = 0; k < std::min(dimensions.size(), kMostTensors); ++k) {
      product *= static_cast<double>(dimensions.item(k).integer(0));
    }
    elements += product;
  }
  return elements >= 0 && elements < 0x1p53 ? std::optional(static_cast<std::int64_t>(elements)) : std::nullopt;
}

// Reads numbers from "[0, 1, 2]", or from a list of them.
std::vector<int> members_of(const PlainValue& ranks) {
  std::vector<int> members;
  const auto add = [&](std::optional<std::int64_t> rank) {
    if (rank && *rank >= 0 && members.size() < kMostMembers) members.push_back(static_cast<int>(*rank));
  };
  for (const std::string& word : base::words(ranks.text(), "[], ")) {
    add(base::parse_integer(word, 0, std::numeric_limits<int>::max()));
  }
  for (std::size_t i = 0; ranks.is(PlainValue::Kind::list) && i < ranks.size(); ++i) {
    const std::int64_t rank = ranks.item(i).integer(-1);
    add(rank <= std::numeric_limits<int>::max() ? std::optional(rank) : std::nullopt);
  }
  return members;
}

// JSON dumps have numbers as texts in some places.
std::optional<std::int64_t> number_in(const PlainValue& value) {
  if (value.is(PlainValue::Kind::integer)) return value.integer(0);
  return base::parse_integer(value.text(), -1, std::numeric_limits<std::int64_t>::max());
}

class DumpReader {
 public:
  DumpReader(const PlainData& data, int rank) : root_(data), rank_(rank) {}

  std::vector<CollectiveRecords> read() {
    read_groups();
    const PlainValue entries = root_.is(PlainValue::Kind::list) ? root_ : root_["entries"];
    for (std::size_t i = 0; i < std::min(entries.size(), kMostEntries); ++i) read_entry(entries.item(i));
    const bool is_empty = entries.size() == 0 && root_["pg_status"].size() == 0 && !root_.is(PlainValue::Kind::list);
    const bool has_all = is_empty || (first_record_ == 0 && last_record_ + 1 == entry_count_);
    if (has_all) record(std::string(kDefaultGroup), "default_pg");  // every rank belongs to it
    for (auto& [key, one] : records_) finish(one, has_all);
    std::vector<CollectiveRecords> all;
    for (auto& [key, one] : records_) {
      if (one.last_enqueued || !one.calls.empty()) all.push_back(std::move(one));
    }
    return all;
  }

 private:
  CollectiveRecords& record(const std::string& key, std::string_view description) {
    CollectiveRecords& one = records_[key];
    one.rank = rank_;
    one.is_dump = true;
    if (key.find('\n') == std::string::npos) one.group = key;
    if (description != "undefined" && !description.empty()) one.description = description;
    return one;
  }

  // PyTorch 2.3 has {0: [0, 1, 2]}, by its own number of the group. Since 2.4 it is {"0": {"name": "0", "desc":
  // "default_pg", "ranks": "[0, 1, 2]"}}, by the name. Gloo leaves all of these empty.
  void read_groups() {
    const PlainValue config = root_["pg_config"];
    std::map<std::string, int> same_members;
    for (std::size_t i = 0; config.is(PlainValue::Kind::dictionary) && i < config.size(); ++i) {
      const PlainValue group = config.item(i);
      const bool is_old = group.is(PlainValue::Kind::list);
      std::vector<int> members = members_of(is_old ? group : group["ranks"]);
      if (members.empty()) continue;
      std::string key(config.key(i).text());
      std::string_view description = group["desc"].text();
      if (is_old) {
        const std::int64_t id = config.key(i).integer(-1);
        // The groups of a rank have the numbers 0, 1, … Two ranks of a group may have different numbers for it.
        key = "of ranks " + base::short_rank_list(members);
        const int count = same_members[key]++;
        if (count > 0) key += " #" + std::to_string(count + 1);
        if (id == 0) key = kDefaultGroup;
        if (id == 0) description = "default_pg";
        old_names_[id] = key;
      }
      CollectiveRecords& one = record(key, description);
      one.group_size = static_cast<int>(members.size());
      one.members = std::move(members);
    }
  }

  // Returns the key of the group of an entry that has only the number of its group.
  std::string old_key(std::int64_t id) const {
    if (id == 0) return std::string(kDefaultGroup);
    const auto named = old_names_.find(id);
    return named != old_names_.end() ? named->second : "PG\n" + std::to_string(id);  // unknown to other ranks
  }

  void read_entry(const PlainValue& entry) {
    const PlainValue names = entry["process_group"];
    const std::int64_t id = entry["pg_id"].integer(-1);
    const bool is_named = names.size() == 2;
    const std::string key = is_named ? std::string(names.item(0).text()) : old_key(id);
    CollectiveRecords& one = record(key, is_named ? names.item(1).text() : id == 0 ? "default_pg" : "undefined");
    if (one.group.empty()) one.description = "PG " + std::to_string(id) + " of rank " + std::to_string(rank_);
    ids_[id] = key;

    RecordedCall call;
    const std::string_view name = entry["profiling_name"].text();
    const std::size_t colon = name.find(':');
    call.operation = name.substr(colon == std::string_view::npos ? 0 : colon + 1);
    const bool has_own_numbers = entry["collective_seq_id"].is(PlainValue::Kind::integer);
    call.is_p2p = entry["is_p2p"].integer(0) != 0 || call.operation.starts_with("send ") ||
                  call.operation.starts_with("recv ") || (!has_own_numbers && call.operation == "coalesced");
    call.number = entry[!has_own_numbers ? "seq_id" : call.is_p2p ? "p2p_seq_id" : "collective_seq_id"].integer(0);
    if (call.is_p2p && !has_own_numbers) one.has_mixed_numbers = true;
    call.numel_in = elements_of(entry["input_sizes"]);
    if (entry["input_dtypes"].size() > 0) call.type = entry["input_dtypes"].item(0).text();
    call.state = state_of(entry, name.starts_with("gloo:"));
    one.calls.push_back(std::move(call));

    const std::int64_t record = entry["record_id"].integer(-1);
    first_record_ = entry_count_ == 0 ? record : std::min(first_record_, record);
    last_record_ = std::max(last_record_, record);
    ++entry_count_;
  }

  static CallState state_of(const PlainValue& entry, bool is_gloo) {
    const std::string_view state = entry["state"].text();
    if (state == "completed") return CallState::completed;
    const bool is_retired = entry["retired"].integer(0) != 0;
    if (is_retired && is_gloo) return CallState::ended;  // the state stays at "scheduled"
    if (is_retired) return CallState::timed_out;
    return state == "started" ? CallState::started : CallState::enqueued;
  }

  // Fills in the numbers of the last calls, and whether `calls` has all of them.
  void finish(CollectiveRecords& one, bool has_all) const {
    std::optional<std::int64_t> first;
    std::int64_t enqueued = 0;
    std::int64_t completed = 0;
    for (const RecordedCall& call : one.calls) {
      if (call.is_p2p) continue;
      first = std::min(first.value_or(call.number), call.number);
      enqueued = std::max(enqueued, call.number);
      if (!call.is_open()) completed = std::max(completed, call.number);
    }
    // The recorder can be reset, so that its first record is not that of the first call. PyTorch 2.2 numbers no
    // records.
    one.has_all_calls = first ? *first == 1 && (has_all || first_record_ < 0) : has_all;
    if (first || one.has_all_calls) {
      one.last_enqueued = enqueued;
      one.last_completed = completed;
      return;
    }
    for (const auto& [id, key] : ids_) {
      if (one.group == key) read_status(one, id);
    }
    if (one.group == kDefaultGroup && !one.last_enqueued) read_status(one, 0);
  }

  void read_status(CollectiveRecords& one, std::int64_t id) const {
    const PlainValue status = root_["pg_status"][std::to_string(id)];
    const auto enqueued = number_in(status["last_enqueued_collective"]);
    if (!enqueued) return;
    const auto counted = [](std::optional<std::int64_t> number) {  // -1 says that there was none
      return number ? std::optional(std::max<std::int64_t>(*number, 0)) : std::nullopt;
    };
    one.last_enqueued = counted(enqueued);
    one.last_completed = counted(number_in(status["last_completed_collective"]));
    one.is_dump = false;  // the numbers are all that is known
  }

  PlainValue root_;
  int rank_;
  std::map<std::string, CollectiveRecords> records_;  // by name of the group
  std::map<std::int64_t, std::string> old_names_;     // PyTorch 2.3: the names by number of the group
  std::map<std::int64_t, std::string> ids_;           // the names by number of the group, as the entries have them
  std::int64_t first_record_ = -1;
  std::int64_t last_record_ = -1;
  std::int64_t entry_count_ = 0;
};

bool is_json(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

}  // namespace

bool may_be_flight_dump(std::string_view bytes) {
  const bool is_pickle = bytes.starts_with('\x80');
  if (!is_pickle && !is_json(bytes)) return false;
  bytes = bytes.substr(0, 4096);
  for (const std::string_view word : {"pg_config", "profiling_name", "collective_seq_id", "comm_lib_version"}) {
    if (bytes.find(word) != std::string_view::npos) return true;
  }
  return false;
}

std::optional<int> rank_of_dump(std::string_view file_name) {
  file_name.remove_prefix(file_name.rfind('/') + 1);  // npos + 1 is 0
  for (std::size_t at = file_name.rfind("rank"); at != std::string_view::npos; at = file_name.rfind("rank", at - 1)) {
    std::size_t digits = at + 4;
    if (digits < file_name.size() && std::string_view("_-=").find(file_name[digits]) != std::string_view::npos)
      ++digits;
    if (const auto rank = integer_at(file_name, digits)) return rank;
    if (at == 0) break;
  }
  const std::size_t dot = file_name.rfind('.');
  if (dot != std::string_view::npos && file_name.find_first_of("0123456789", dot) == std::string_view::npos) {
    file_name = file_name.substr(0, dot);
  }
  const std::size_t last = file_name.find_last_not_of("0123456789");
  return integer_at(file_name, last == std::string_view::npos ? 0 : last + 1);
}

base::Result<std::vector<CollectiveRecords>> read_flight_dump(std::string_view bytes, std::string_view file_name) {
  const auto rank = rank_of_dump(file_name);
  if (!rank) return base::Failure{"the name of the dump \"" + std::string(file_name) + "\" does not end in its rank"};
  const auto data = is_json(bytes) ? read_json(bytes) : read_pickle(bytes);
  if (!data) return base::Failure{"cannot read \"" + std::string(file_name) + "\": " + data.error().message};
  const PlainValue root(data.value());
  const bool has_config = root["pg_config"].is(PlainValue::Kind::dictionary) || !root["version"].is_none();
  const bool is_list =
      root.is(PlainValue::Kind::list) && (root.size() == 0 || !root.item(0)["profiling_name"].is_none());
  if (!has_config && !is_list) {
    return base::Failure{"\"" + std::string(file_name) + "\" is not a dump of PyTorch's flight recorder"};
  }
  return DumpReader(data.value(), *rank).read();
}

}  // namespace ddp::launcher

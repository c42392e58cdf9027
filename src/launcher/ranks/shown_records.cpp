#include "launcher/ranks/shown_records.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

// The records of a rank are one array without names of fields, with these numbers for each record.
constexpr std::size_t kNumbers = 8;

Json json_of_records(const RankRecords& rank) {
  const std::uint64_t base = rank.records.empty() ? 0 : rank.records.front().begin;
  Json groups = Json::array();
  for (const RecordedGroup& group : rank.groups) groups.push_back({group.identity, group.name, group.size});
  Json numbers = Json::array();
  for (const Record& record : rank.records) {
    numbers.push_back(static_cast<int>(record.kind));
    numbers.push_back(record.operation);
    numbers.push_back(record.group);
    numbers.push_back(record.name);
    numbers.push_back(record.number);
    numbers.push_back(static_cast<std::int64_t>(record.begin - base));
    numbers.push_back(record.end - record.begin);
    numbers.push_back(record.bytes);
  }
  return {{"rank", rank.rank},           {"dropped", rank.dropped}, {"base", base},
          {"groups", std::move(groups)}, {"names", rank.names},     {"records", std::move(numbers)}};
}

// Throws if the record is invalid.
Record record_of(std::span<const Json> numbers, std::uint64_t base, const RankRecords& rank) {
  Record record;
  const auto kind = numbers[0].get<std::uint8_t>();
  record.kind = static_cast<wire::RecordKind>(kind);
  record.operation = numbers[1];
  record.group = numbers[2];
  record.name = numbers[3];
  record.number = numbers[4];
  record.begin = base + static_cast<std::uint64_t>(numbers[5].get<std::int64_t>());
  record.end = record.begin + numbers[6].get<std::uint64_t>();
  record.bytes = numbers[7];
  const bool is_valid = kind > 0 && record.kind <= wire::RecordKind::transfer && record.end >= record.begin;
  static_cast<void>(rank.groups.at(record.group));
  static_cast<void>(rank.names.at(record.name));
  if (!is_valid) throw std::out_of_range("record");
  return record;
}

RankRecords records_of(const Json& json) {
  RankRecords rank;
  rank.rank = json.at("rank");
  rank.dropped = json.at("dropped");
  rank.names = json.at("names").get<std::vector<std::string>>();
  for (const Json& group : json.at("groups")) rank.groups.push_back({group.at(0), group.at(1), group.at(2)});
  const std::uint64_t base = json.at("base");
  const auto& numbers = json.at("records").get_ref<const Json::array_t&>();
  for (std::size_t i = 0; i + kNumbers <= numbers.size(); i += kNumbers) {
    rank.records.push_back(record_of(std::span(numbers).subspan(i, kNumbers), base, rank));
  }
  return rank;
}

// Returns the index of `item` in `items`, where it is added if it is missing. The first item stands for all that find
// no space.
template <typename Item>
std::uint16_t index_in(std::vector<Item>& items, const Item& item) {
  const auto found = std::ranges::find(items, item);
  if (found == items.end() && items.size() > UINT16_MAX) return 0;
  const auto index = static_cast<std::uint16_t>(found - items.begin());
  if (found == items.end()) items.push_back(item);
  return index;
}

}  // namespace

std::string show_records(const ShownRecords& shown) {
  Json ranks = Json::array();
  for (const RankRecords& rank : shown.ranks) ranks.push_back(json_of_records(rank));
  const Json json = {{"asked_at", shown.asked_at},
                     {"received_at", shown.received_at},
                     {"answered_at", shown.answered_at},
                     {"is_last", shown.is_last},
                     {"ranks", std::move(ranks)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ShownRecords read_records(const std::string& text) try {
  const Json json = Json::parse(text);
  ShownRecords shown;
  shown.asked_at = json.at("asked_at");
  shown.received_at = json.at("received_at");
  shown.answered_at = json.at("answered_at");
  shown.is_last = json.at("is_last");
  for (const Json& rank : json.at("ranks")) shown.ranks.push_back(records_of(rank));
  return shown;
} catch (const std::exception&) {  // of the library, or about an index
  return {};
}

void append_records(RankRecords& to, const RankRecords& more) {
  if (to.groups.empty()) to.groups.emplace_back();
  if (to.names.empty()) to.names.emplace_back();
  to.rank = more.rank;
  to.dropped = std::max(to.dropped, more.dropped);
  std::vector<std::uint16_t> groups;
  std::vector<std::uint16_t> names;
  for (const RecordedGroup& group : more.groups) groups.push_back(index_in(to.groups, group));
  for (const std::string& name : more.names) names.push_back(index_in(to.names, name));
  for (Record record : more.records) {
    record.group = groups.at(record.group);
    record.name = names.at(record.name);
    to.records.push_back(record);
  }
}

std::vector<ShownRecords> divide_records(ShownRecords shown) {
  std::vector<RankRecords> ranks = std::exchange(shown.ranks, {});
  const bool is_last = std::exchange(shown.is_last, false);
  std::vector<ShownRecords> messages = {std::move(shown)};
  std::size_t space = limits::kShownRecords;
  for (RankRecords& rank : ranks) {
    const std::vector<Record> records = std::exchange(rank.records, {});
    for (std::size_t at = 0; at == 0 || at < records.size();) {
      if (space == 0) {
        messages.emplace_back();
        space = limits::kShownRecords;
      }
      const std::size_t count = std::min(space, records.size() - at);
      RankRecords part = rank;
      part.records.assign(records.begin() + static_cast<std::ptrdiff_t>(at),
                          records.begin() + static_cast<std::ptrdiff_t>(at + count));
      messages.back().ranks.push_back(std::move(part));
      space -= count;
      at += count;
      if (records.empty()) break;
    }
  }
  messages.back().is_last = is_last;
  return messages;
}

}  // namespace ddp::launcher

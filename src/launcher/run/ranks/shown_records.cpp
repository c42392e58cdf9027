#include "launcher/run/ranks/shown_records.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "launcher/limits.h"
#include "wire/json_fields.h"

namespace ddp::wire {

constexpr RecordKind last_of(RecordKind) {
  return RecordKind::transfer;
}

}  // namespace ddp::wire

namespace ddp::launcher {

auto fields_of(wire::FieldsOf<RecordedGroup> auto& group) {
  return std::tie(group.identity, group.name, group.size);
}
auto fields_of(wire::FieldsOf<Record> auto& record) {
  return std::tie(record.kind, record.operation, record.group, record.name, record.number, record.begin, record.end,
                  record.bytes);
}
// The records are added as one array of numbers.
BOOST_DESCRIBE_STRUCT(RankRecords, (), (rank, dropped, groups, names))
BOOST_DESCRIBE_STRUCT(ShownRecords, (), (asked_at, received_at, answered_at, is_last))

namespace {

using Json = nlohmann::json;

constexpr std::size_t kNumbers = std::tuple_size_v<decltype(fields_of(std::declval<Record&>()))>;

Json json_of_records(const RankRecords& rank) {
  const std::uint64_t base = rank.records.empty() ? 0 : rank.records.front().begin;
  Json numbers = Json::array();
  for (Record record : rank.records) {
    record.end -= record.begin;
    record.begin -= base;
    Json fields = wire::json_of(record);
    for (Json& field : fields) numbers.push_back(std::move(field));
  }
  Json json = wire::json_of(rank);
  json["base"] = base;
  json["records"] = std::move(numbers);
  return json;
}

RankRecords records_of(const Json& json) {
  auto rank = wire::read_json<RankRecords>(json);
  const auto base = wire::read_json<std::uint64_t>(json.at("base"));
  const auto& numbers = json.at("records").get_ref<const Json::array_t&>();
  for (auto at = numbers.begin(); numbers.end() - at >= std::ptrdiff_t{kNumbers}; at += kNumbers) {
    auto record = wire::read_json<Record>(Json::array_t(at, at + kNumbers));
    record.begin += base;
    record.end += record.begin;
    const bool is_valid = record.kind != wire::RecordKind::none && record.end >= record.begin &&
                          record.group < rank.groups.size() && record.name < rank.names.size();
    if (!is_valid) throw std::out_of_range("record");
    rank.records.push_back(record);
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
  Json json = wire::json_of(shown);
  json["ranks"] = std::move(ranks);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ShownRecords read_records(const std::string& text) try {
  const Json json = Json::parse(text);
  auto shown = wire::read_json<ShownRecords>(json);
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

#include "wire/store_report.h"

#include <cstring>

#include "wire/store_message.h"

namespace ddp::wire {
namespace {

// Writer and Reader have the same functions, so that one description serves both directions.
class Writer {
 public:
  void number(std::int64_t& value) { put_i64(out, value); }
  void text(std::string& value) { put_bytes(out, value); }
  template <typename Item, typename Function>
  void list(std::vector<Item>& items, Function&& function) {
    put_i64(out, static_cast<std::int64_t>(items.size()));
    for (Item& item : items) function(item);
  }

  std::string out;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  void number(std::int64_t& value) {
    good_ = good_ && rest_.size() >= sizeof value;
    if (!good_) return;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
  }
  void text(std::string& value) {
    std::int64_t length = 0;
    number(length);
    good_ = good_ && length >= 0 && static_cast<std::uint64_t>(length) <= rest_.size();
    if (!good_) return;
    value.assign(rest_.substr(0, static_cast<std::size_t>(length)));
    rest_.remove_prefix(value.size());
  }
  template <typename Item, typename Function>
  void list(std::vector<Item>& items, Function&& function) {
    std::int64_t count = 0;
    number(count);
    for (std::int64_t i = 0; good_ && i < count; ++i) function(items.emplace_back());
  }

  bool is_whole() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

template <typename Coder>
void code(Coder& coder, StoreReport& report) {
  coder.number(report.key_count);
  coder.number(report.table_bytes);
  coder.number(report.client_count);
  coder.list(report.keys, [&](StoreReport::Key& key) {
    coder.text(key.name);
    coder.number(key.bytes);
    coder.number(key.queued);
  });
  coder.list(report.clients, [&](StoreReport::Client& client) {
    coder.text(client.peer);
    coder.number(client.rank);
    coder.text(client.name);
    coder.number(client.connected_ms);
    coder.number(client.waiting_ms);
    coder.number(client.awaited_keys);
    coder.list(client.awaited, [&](std::string& key) { coder.text(key); });
    coder.number(client.held_bytes);
  });
}

}  // namespace

std::string encode(const StoreReport& report) {
  Writer writer;
  StoreReport copy = report;
  code(writer, copy);
  return std::move(writer.out);
}

std::optional<StoreReport> decode_store_report(std::string_view bytes) {
  Reader reader(bytes);
  StoreReport report;
  code(reader, report);
  if (!reader.is_whole()) return std::nullopt;
  return report;
}

}  // namespace ddp::wire

#include "launcher/see/explain/plain_value.h"

#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <limits>
#include <string>
#include <unordered_map>

#include "base/text.h"

namespace ddp::launcher {
namespace {

using Kind = PlainNode::Kind;

std::string too_many() {
  return "more than " + std::to_string(kMostPlainNodes) + " values";
}

// Pickles are programs for a stack machine. See Python's Lib/pickletools.py for what each operation does.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  base::Result<PlainData> run() {
    static const std::array<Action, 256> kActions = actions();
    while (error_.empty() && !stopped_) {
      const auto operation = static_cast<unsigned char>(byte());
      if (!error_.empty()) break;
      if (const Action action = kActions.at(operation)) {
        action(*this);
      } else {
        fail("unknown operation " + std::to_string(operation));
      }
    }
    if (!error_.empty()) return base::Failure{error_ + " at byte " + std::to_string(at_)};
    return std::move(data_);
  }

 private:
  using Action = void (*)(Machine& machine);

  // Returns what each operation does. An unknown one has no action.
  static std::array<Action, 256> actions() {
    struct Row {
      std::string_view operations;
      Action action;
    };
    constexpr Row kRows[] = {
        {"\x80", [](Machine& m) { m.take(1); }},  // PROTO
        {"\x95", [](Machine& m) { m.take(8); }},  // FRAME
        {"(", [](Machine& m) { m.open_mark(); }},
        {"0", [](Machine& m) { m.pop(); }},
        {"1", [](Machine& m) { m.items_of_mark(); }},
        {"2", [](Machine& m) { m.duplicate(); }},
        {".", [](Machine& m) { m.stop(); }},
        // Scalars
        {"N", [](Machine& m) { m.push({}); }},
        {"\x88", [](Machine& m) { m.push_boolean(true); }},
        {"\x89", [](Machine& m) { m.push_boolean(false); }},
        {"J", [](Machine& m) { m.push_integer(static_cast<std::int32_t>(m.unsigned_integer(4))); }},
        {"K", [](Machine& m) { m.push_integer(static_cast<std::int64_t>(m.unsigned_integer(1))); }},
        {"M", [](Machine& m) { m.push_integer(static_cast<std::int64_t>(m.unsigned_integer(2))); }},
        {"\x8a", [](Machine& m) { m.push_long(m.unsigned_integer(1)); }},
        {"\x8b", [](Machine& m) { m.push_long(m.unsigned_integer(4)); }},
        {"G", [](Machine& m) { m.push_number(std::bit_cast<double>(big_endian(m.take(8)))); }},
        {"F", [](Machine& m) { m.push_number(base::parse_number(m.line()).value_or(0)); }},
        {"IL", [](Machine& m) { m.push_decimal(m.line()); }},
        // Texts
        {"XBT", [](Machine& m) { m.push_text(m.take(m.unsigned_integer(4))); }},
        {"CU\x8c", [](Machine& m) { m.push_text(m.take(m.unsigned_integer(1))); }},
        {"\x8d\x8e\x96", [](Machine& m) { m.push_text(m.take(m.unsigned_integer(8))); }},
        {"V", [](Machine& m) { m.push_text(m.line()); }},
        {"S", [](Machine& m) { m.push_quoted(m.line()); }},
        // Containers
        {"])\x8f", [](Machine& m) { m.push_list({}); }},
        {"lt\x91", [](Machine& m) { m.push_list(m.items_of_mark()); }},
        {"\x85", [](Machine& m) { m.push_list(m.top(1)); }},
        {"\x86", [](Machine& m) { m.push_list(m.top(2)); }},
        {"\x87", [](Machine& m) { m.push_list(m.top(3)); }},
        {"}", [](Machine& m) { m.push_dictionary({}); }},
        {"d", [](Machine& m) { m.push_dictionary(m.items_of_mark()); }},
        {"a", [](Machine& m) { m.extend(Kind::list, m.top(1)); }},
        {"e\x90", [](Machine& m) { m.extend(Kind::list, m.items_of_mark()); }},
        {"s", [](Machine& m) { m.extend(Kind::dictionary, m.top(2)); }},
        {"u", [](Machine& m) { m.extend(Kind::dictionary, m.items_of_mark()); }},
        // The memo
        {"q", [](Machine& m) { m.memoize(m.unsigned_integer(1)); }},
        {"r", [](Machine& m) { m.memoize(m.unsigned_integer(4)); }},
        {"\x94", [](Machine& m) { m.memoize(m.memo_.size()); }},
        {"p", [](Machine& m) { m.memoize(index(m.line())); }},
        {"h", [](Machine& m) { m.recall(m.unsigned_integer(1)); }},
        {"j", [](Machine& m) { m.recall(m.unsigned_integer(4)); }},
        {"g", [](Machine& m) { m.recall(index(m.line())); }},
        // Code
        {"cioRbPQ\x81\x82\x83\x84\x92\x93\x97\x98",
         [](Machine& m) { m.fail("the pickle wants to import or to call something, which is refused,"); }},
    };
    std::array<Action, 256> all{};
    for (const Row& row : kRows) {
      for (const char operation : row.operations) all.at(static_cast<unsigned char>(operation)) = row.action;
    }
    return all;
  }

  void fail(std::string reason) {
    if (error_.empty()) error_ = std::move(reason);
  }

  // Returns the next bytes, or nothing if there are too few of them.
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) {
      fail("the pickle is cut off");
      at_ = bytes_.size();
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  char byte() {
    const std::string_view one = take(1);
    return one.empty() ? '\0' : one.front();
  }

  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return take(bytes_.size() + 1);
    std::string_view text = take(end - at_);
    take(1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
  }

  std::uint64_t unsigned_integer(std::size_t size) {
    const std::string_view text = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = text.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
    return value;
  }

  static std::uint64_t big_endian(std::string_view text) {
    std::uint64_t value = 0;
    for (const char c : text) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }

  static std::uint64_t index(std::string_view digits) {
    return static_cast<std::uint64_t>(
        base::parse_integer(digits, 0, std::numeric_limits<std::uint32_t>::max()).value_or(-1));
  }

  void push(PlainNode node) {
    if (data_.nodes.size() >= kMostPlainNodes) return fail(too_many());
    data_.nodes.push_back(std::move(node));
    push_index(static_cast<std::uint32_t>(data_.nodes.size() - 1));
  }
  void push_index(std::uint32_t index) {
    if (stack_.size() >= kMostPlainNodes) return fail(too_many());
    stack_.push_back(index);
  }
  void push_boolean(bool value) { push({.kind = Kind::boolean, .integer = value ? 1 : 0}); }
  void push_integer(std::int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_number(double value) { push({.kind = Kind::number, .number = value}); }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = std::string(text)}); }

  // Python 2 writes an L after an integer of any size.
  void push_decimal(std::string_view digits) {
    if (digits.ends_with('L')) digits.remove_suffix(1);
    if (digits == "00" || digits == "01") return push_boolean(digits == "01");
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
    const auto value = base::parse_integer(digits, -kLargest, kLargest);
    if (!value) return fail("not an integer of 64 bits");
    push_integer(*value);
  }

  void push_long(std::uint64_t size) {
    const std::string_view text = take(size);
    if (text.size() > 8) return fail("not an integer of 64 bits");
    std::uint64_t value =
        !text.empty() && (static_cast<unsigned char>(text.back()) & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = text.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
    push_integer(static_cast<std::int64_t>(value));
  }

  void push_quoted(std::string_view text) {
    if (text.size() < 2 || text.front() != text.back()) return fail("a string without quotes");
    push_text(text.substr(1, text.size() - 2));
  }

  void push_list(std::vector<std::uint32_t> items) { push({.kind = Kind::list, .items = std::move(items)}); }
  void push_dictionary(std::vector<std::uint32_t> items) {
    if (items.size() % 2 != 0) return fail("a key without a value");
    push({.kind = Kind::dictionary, .items = std::move(items)});
  }

  void open_mark() {
    if (marks_.size() >= kDeepestPlainValue)
      return fail("more than " + std::to_string(kDeepestPlainValue) + " open marks");
    marks_.push_back(stack_.size());
  }

  std::uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      fail("a value is missing");
      return 0;
    }
    const std::uint32_t index = stack_.back();
    stack_.pop_back();
    return index;
  }

  void duplicate() {
    const std::uint32_t index = pop();
    push_index(index);
    push_index(index);
  }

  void stop() {
    data_.root = pop();
    stopped_ = true;
  }

  // Removes the topmost values, and returns them in the order in which they were pushed.
  std::vector<std::uint32_t> top(std::size_t count) {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < bottom + count) {
      fail("a value is missing");
      return {};
    }
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }

  std::vector<std::uint32_t> items_of_mark() {
    if (marks_.empty()) {
      fail("a mark is missing");
      return {};
    }
    std::vector<std::uint32_t> items = top(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  void extend(Kind kind, const std::vector<std::uint32_t>& items) {
    if (!error_.empty()) return;
    if (stack_.empty() || data_.nodes[stack_.back()].kind != kind) return fail("no container for a value");
    if (kind == Kind::dictionary && items.size() % 2 != 0) return fail("a key without a value");
    used_items_ += items.size();
    if (used_items_ > kMostPlainNodes) return fail(too_many());
    std::vector<std::uint32_t>& all = data_.nodes[stack_.back()].items;
    all.insert(all.end(), items.begin(), items.end());
  }

  void memoize(std::uint64_t index) {
    if (!error_.empty()) return;
    if (stack_.empty()) return fail("a value is missing");
    if (memo_.size() >= kMostPlainNodes) return fail(too_many());
    memo_[index] = stack_.back();
  }

  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return fail("a value that was not memorized");
    push_index(found->second);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  PlainData data_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
  std::size_t used_items_ = 0;
  std::string error_;
  bool stopped_ = false;
};

using Kind = PlainNode::Kind;

// Collects the values while nlohmann::json reads them. Its names and signatures are those of nlohmann::json_sax.
class Collector {
 public:
  bool null() { return add({}); }
  bool boolean(bool value) { return add({.kind = Kind::boolean, .integer = value ? 1 : 0}); }
  bool number_integer(std::int64_t value) { return add({.kind = Kind::integer, .integer = value}); }
  bool number_unsigned(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<std::int64_t>(value));
    }
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string& /*text*/) { return add({.kind = Kind::number, .number = value}); }
  bool string(std::string& text) { return add({.kind = Kind::text, .text = std::move(text)}); }
  bool key(std::string& text) { return string(text); }
  bool binary(std::vector<std::uint8_t>& /*bytes*/) { return false; }
  bool start_object(std::size_t /*size*/) { return open(Kind::dictionary); }
  bool end_object() { return close(); }
  bool start_array(std::size_t /*size*/) { return open(Kind::list); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t place, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) {
    error = "not JSON at byte " + std::to_string(place);
    return false;
  }

  PlainData data;
  std::string error;

 private:
  bool add(PlainNode node) {
    if (data.nodes.size() >= kMostPlainNodes) {
      error = "more than " + std::to_string(kMostPlainNodes) + " values";
      return false;
    }
    if (!open_.empty()) data.nodes[open_.back()].items.push_back(static_cast<std::uint32_t>(data.nodes.size()));
    data.nodes.push_back(std::move(node));
    return true;
  }

  bool open(Kind kind) {
    if (!add({.kind = kind})) return false;
    open_.push_back(static_cast<std::uint32_t>(data.nodes.size() - 1));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<std::uint32_t> open_;  // the containers around the next value
};

}  // namespace

base::Result<PlainData> read_pickle(std::string_view bytes) {
  return Machine(bytes).run();
}

base::Result<PlainData> read_json(std::string_view bytes) {
  Collector collector;
  if (nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &collector)) return std::move(collector.data);
  return base::Failure{collector.error.empty() ? "not JSON" : collector.error};
}

}  // namespace ddp::launcher

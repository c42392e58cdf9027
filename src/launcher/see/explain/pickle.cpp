#include "launcher/see/explain/pickle.h"

#include <bit>
#include <limits>
#include <optional>
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
    while (error_.empty() && !stopped_) step(static_cast<unsigned char>(byte()));
    if (!error_.empty()) return base::Failure{error_ + " at byte " + std::to_string(at_)};
    return std::move(data_);
  }

 private:
  void step(unsigned char operation) {
    if (!error_.empty()) return;
    if (read_scalar(operation) || read_text(operation) || read_container(operation) || use_memo(operation)) return;
    switch (operation) {
      case 0x80:  // PROTO
        byte();
        return;
      case 0x95:  // FRAME
        take(8);
        return;
      case '(':  // MARK
        open_mark();
        return;
      case '0':  // POP
        pop();
        return;
      case '1':  // POP_MARK
        items_of_mark();
        return;
      case '2': {  // DUP
        const std::uint32_t top = pop();
        push_index(top);
        push_index(top);
        return;
      }
      case '.':  // STOP
        data_.root = pop();
        stopped_ = true;
        return;
      default:
        refuse(operation);
    }
  }

  bool read_scalar(unsigned char operation) {
    switch (operation) {
      case 'N':
        push({});
        return true;
      case 0x88:
        push_boolean(true);
        return true;
      case 0x89:
        push_boolean(false);
        return true;
      case 'J':
        push_integer(static_cast<std::int32_t>(unsigned_integer(4)));
        return true;
      case 'K':
        push_integer(static_cast<std::int64_t>(unsigned_integer(1)));
        return true;
      case 'M':
        push_integer(static_cast<std::int64_t>(unsigned_integer(2)));
        return true;
      case 0x8a:
        push_long(unsigned_integer(1));
        return true;
      case 0x8b:
        push_long(unsigned_integer(4));
        return true;
      case 'G':
        push_number(std::bit_cast<double>(big_endian(take(8))));
        return true;
      case 'F':
        push_number(base::parse_number(line()).value_or(0));
        return true;
      case 'I':
        push_decimal(line());
        return true;
      case 'L': {
        std::string_view digits = line();
        if (digits.ends_with('L')) digits.remove_suffix(1);
        push_decimal(digits);
        return true;
      }
      default:
        return false;
    }
  }

  bool read_text(unsigned char operation) {
    switch (operation) {
      case 'X':
      case 'B':
      case 'T':
        push_text(take(unsigned_integer(4)));
        return true;
      case 0x8c:
      case 'C':
      case 'U':
        push_text(take(unsigned_integer(1)));
        return true;
      case 0x8d:
      case 0x8e:
      case 0x96:
        push_text(take(unsigned_integer(8)));
        return true;
      case 'V':
        push_text(line());
        return true;
      case 'S': {
        std::string_view quoted = line();
        if (quoted.size() < 2 || quoted.front() != quoted.back()) return fail("a string without quotes"), true;
        push_text(quoted.substr(1, quoted.size() - 2));
        return true;
      }
      default:
        return false;
    }
  }

  bool read_container(unsigned char operation) {
    switch (operation) {
      case ']':
      case ')':
      case 0x8f:
        push({.kind = Kind::list});
        return true;
      case '}':
        push({.kind = Kind::dictionary});
        return true;
      case 'l':
      case 't':
      case 0x91:
        push({.kind = Kind::list, .items = items_of_mark()});
        return true;
      case 'd':
        push_dictionary(items_of_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push({.kind = Kind::list, .items = top(operation - 0x84U)});
        return true;
      case 'a':
        extend(Kind::list, top(1));
        return true;
      case 'e':
      case 0x90:
        extend(Kind::list, items_of_mark());
        return true;
      case 's':
        extend(Kind::dictionary, top(2));
        return true;
      case 'u':
        extend(Kind::dictionary, items_of_mark());
        return true;
      default:
        return false;
    }
  }

  bool use_memo(unsigned char operation) {
    switch (operation) {
      case 'q':
        memoize(unsigned_integer(1));
        return true;
      case 'r':
        memoize(unsigned_integer(4));
        return true;
      case 0x94:
        memoize(memo_.size());
        return true;
      case 'p':
        memoize(index(line()));
        return true;
      case 'h':
        recall(unsigned_integer(1));
        return true;
      case 'j':
        recall(unsigned_integer(4));
        return true;
      case 'g':
        recall(index(line()));
        return true;
      default:
        return false;
    }
  }

  void refuse(unsigned char operation) {
    constexpr std::string_view kCode = "cioRb\x81\x92\x93\x82\x83\x84PQ\x97\x98";
    if (kCode.find(static_cast<char>(operation)) != std::string_view::npos) {
      fail("the pickle wants to import or to call something, which is refused,");
    } else {
      fail("unknown operation " + std::to_string(operation));
    }
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

  void push_decimal(std::string_view digits) {
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

}  // namespace

base::Result<PlainData> read_pickle(std::string_view bytes) {
  return Machine(bytes).run();
}

}  // namespace ddp::launcher

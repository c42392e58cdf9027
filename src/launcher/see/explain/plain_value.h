// A value of plain data, as a pickle or a JSON document contains it. The values of a document are in one table, and
// refer to each other by index, because a pickle may use a value in several places, or within itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct PlainNode {
  enum class Kind : std::uint8_t { none, boolean, integer, number, text, list, dictionary };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // of a boolean, too
  double number = 0;
  std::string text;                  // of a string, or of bytes
  std::vector<std::uint32_t> items;  // of a list, a tuple or a set. A dictionary has its keys and values in turn
};

struct PlainData {
  std::vector<PlainNode> nodes;
  std::uint32_t root = 0;
};

// Refers to a value of `data`, which must outlive it. All functions accept a value of any kind.
class PlainValue {
 public:
  using Kind = PlainNode::Kind;

  explicit PlainValue(const PlainData& data) : PlainValue(data, data.root) {}

  bool is(Kind kind) const { return node().kind == kind; }
  bool is_none() const { return is(Kind::none); }
  std::string_view text() const { return node().text; }  // empty if it is not a text
  std::int64_t integer(std::int64_t otherwise) const {
    return is(Kind::integer) || is(Kind::boolean) ? node().integer : otherwise;
  }

  // The items of a list, and the entries of a dictionary.
  std::size_t size() const { return is(Kind::dictionary) ? node().items.size() / 2 : node().items.size(); }
  PlainValue item(std::size_t index) const {
    return PlainValue(*data_, node().items[is(Kind::dictionary) ? 2 * index + 1 : index]);
  }
  PlainValue key(std::size_t index) const { return PlainValue(*data_, node().items[2 * index]); }

  // Returns the value of a dictionary's key, or none.
  PlainValue operator[](std::string_view name) const {
    if (!is(Kind::dictionary)) return PlainValue(*data_, kNone);
    for (std::size_t i = 0; i < size(); ++i) {
      if (key(i).is(Kind::text) && key(i).text() == name) return item(i);
    }
    return PlainValue(*data_, kNone);
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  PlainValue(const PlainData& data, std::uint32_t index) : data_(&data), index_(index) {}

  const PlainNode& node() const {
    static const PlainNode none;
    return index_ < data_->nodes.size() ? data_->nodes[index_] : none;
  }

  const PlainData* data_;
  std::uint32_t index_;
};

inline constexpr std::size_t kMostPlainNodes = 2'000'000;  // values of a document

// Returns the value of a JSON document. Fails with the reason and its place if it is none, or has more than
// kMostPlainNodes values.
base::Result<PlainData> read_json(std::string_view bytes);

inline constexpr std::size_t kDeepestPlainValue = 64;  // marks of a pickle that are open at once

// Reads a pickle of Python, protocols 0 to 5, without running anything: a pickle that wants to import or to call
// something is refused. PyTorch's flight recorder writes protocol 2. Returns the value of the first pickle in `bytes`.
// Fails with the reason and its place if it is none, or has more than kMostPlainNodes values.
base::Result<PlainData> read_pickle(std::string_view bytes);

}  // namespace ddp::launcher

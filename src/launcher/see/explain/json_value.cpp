#include "launcher/see/explain/json_value.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <string>
#include <vector>

#include "launcher/see/explain/pickle.h"

namespace ddp::launcher {
namespace {

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

base::Result<PlainData> read_json(std::string_view bytes) {
  Collector collector;
  if (nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &collector)) return std::move(collector.data);
  return base::Failure{collector.error.empty() ? "not JSON" : collector.error};
}

}  // namespace ddp::launcher

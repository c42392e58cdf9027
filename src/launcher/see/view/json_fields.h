// FieldWriter, FieldReader and FieldRounder serve one list of fields:
//
//   template <typename Fields, typename Row>
//   void list_fields(Fields& fields, Row& row) { fields.add("rank", row.rank); fields.add("share", row.share, 4); }
//
//   FieldWriter::object(text, row, list);           // `list` calls list_fields(fields, row)
//   FieldReader::object(json, row, list);
//   FieldRounder::object(row, list);                // changes the row to what is written
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp::launcher {

// Appends objects to a text. A tree of nlohmann's values would cost several times as much for a thousand ranks.
class FieldWriter {
 public:
  template <typename Row, typename List>
  static void object(std::string& text, const Row& row, List list) {
    text += '{';
    FieldWriter fields(text);
    list(fields, row);
    text += '}';
  }

  void add(const char* name, std::string_view value) {
    // Names may be any bytes. Bytes that are not UTF-8 are shown as replacement characters.
    using Json = nlohmann::json;
    key(name) += Json(value).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  }
  void add(const char* name, std::same_as<bool> auto value) { key(name) += value ? "true" : "false"; }
  void add(const char* name, int value) { number(value, key(name)); }
  void add(const char* name, std::uint64_t value) { number(value, key(name)); }
  // A number that is not finite has no JSON, and becomes null.
  void add(const char* name, double value, int digits) { add_exactly(name, rounded(value, digits)); }
  // Rounds to `digits` decimal digits.
  static double rounded(double value, int digits) {
    const double scale = std::pow(10.0, digits);
    const double result = std::round(value * scale) / scale;
    return std::isfinite(result) ? result : value;
  }
  void add_exactly(const char* name, double value) {
    std::isfinite(value) ? number(value, key(name)) : void(key(name) += "null");
  }
  // A missing value becomes null.
  template <typename Value, typename... Digits>
  void add(const char* name, const std::optional<Value>& value, Digits... digits) {
    value ? add(name, *value, digits...) : void(key(name) += "null");
  }
  // Writes a value of an enumeration from 0 to `count` - 1 by its name_of().
  template <typename Enumeration>
  void add_named(const char* name, Enumeration value, int /*count*/) {
    add(name, name_of(value));
  }
  // Leaves the field out if the value is missing, empty or 0.
  template <typename Value, typename... Digits>
  void add_if_any(const char* name, const Value& value, Digits... digits) {
    if (value != Value()) add(name, value, digits...);
  }
  template <typename Rows, typename List>
  void add_list(const char* name, const Rows& rows, List list) {
    key(name) += '[';
    for (const auto& row : rows) {
      if (&row != &*rows.begin()) text_ += ',';
      object(text_, row, list);
    }
    text_ += ']';
  }
  template <typename Numbers, typename... Digits>
  void add_numbers(const char* name, const Numbers& numbers, Digits... digits) {
    key(name) += '[';
    for (const auto& each : numbers) add(nullptr, each, digits...);
    text_ += ']';
  }

 private:
  explicit FieldWriter(std::string& text) : text_(text) {}

  // An item of a list has no name.
  std::string& key(const char* name) {
    if (text_.back() != '{' && text_.back() != '[') text_ += ',';
    if (name != nullptr) text_.append("\"").append(name).append("\":");
    return text_;
  }
  template <typename Number>
  static void number(Number value, std::string& text) {
    char digits[32];
    text.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  std::string& text_;
};

// Reads objects that any program may have written. A value of another type or out of range counts as missing, and
// leaves what it should replace as it is. Numbers that are rounded are times, sizes and shares: never negative.
class FieldReader {
 public:
  template <typename Row, typename List>
  static void object(const nlohmann::json& json, Row& row, List list) {
    FieldReader fields(json);
    if (json.is_object()) list(fields, row);
  }

  void add(const char* name, std::string& value) const { set(find(name), value); }
  void add(const char* name, bool& value) const { set(find(name), value); }
  void add(const char* name, int& value) const { set(find(name), value); }
  void add(const char* name, std::uint64_t& value) const { set(find(name), value); }
  void add(const char* name, double& value, int /*digits*/) const {
    add_exactly(name, value);
    value = std::max(value, 0.0);
  }
  void add_exactly(const char* name, double& value) const { set(find(name), value); }
  template <typename Value, typename... Digits>
  void add(const char* name, std::optional<Value>& value, Digits... digits) const {
    if (!find(name).is_number()) return;
    add(name, value.emplace(), digits...);
  }
  template <typename Enumeration>
  void add_named(const char* name, Enumeration& value, int count) const {
    std::string text;
    add(name, text);
    for (int i = 0; i < count; ++i) {
      if (name_of(static_cast<Enumeration>(i)) == text) value = static_cast<Enumeration>(i);
    }
  }
  template <typename Value, typename... Digits>
  void add_if_any(const char* name, Value& value, Digits... digits) const {
    add(name, value, digits...);
  }
  // Appends to `rows`. What is no object is left out.
  template <typename Rows, typename List>
  void add_list(const char* name, Rows& rows, List list) const {
    for (const nlohmann::json& json : items(name)) {
      if (json.is_object()) object(json, rows.emplace_back(), list);
    }
  }
  void add_numbers(const char* name, std::vector<std::optional<double>>& numbers, int /*digits*/) const {
    for (const nlohmann::json& json : items(name)) {
      auto& number = numbers.emplace_back();
      if (json.is_number()) set(json, number.emplace());
    }
  }
  template <typename Numbers, typename... Digits>
  void add_numbers(const char* name, Numbers& numbers, Digits... /*digits*/) const {
    std::size_t at = 0;
    for (const nlohmann::json& json : items(name)) {
      if constexpr (requires { numbers.emplace_back(); }) {
        if (json.is_number()) set(json, numbers.emplace_back());
      } else if (at < numbers.size()) {
        set(json, numbers[at++]);
      }
    }
  }

 private:
  explicit FieldReader(const nlohmann::json& json) : json_(json) {}

  static void set(const nlohmann::json& json, std::string& value) {
    if (json.is_string()) value = json.get<std::string>();
  }
  static void set(const nlohmann::json& json, bool& value) {
    if (json.is_boolean()) value = json.get<bool>();
  }
  static void set(const nlohmann::json& json, int& value) {
    if (json.is_number_integer() && std::in_range<int>(json.get<std::int64_t>())) value = json.get<int>();
  }
  static void set(const nlohmann::json& json, std::uint64_t& value) {
    if (json.is_number_unsigned()) value = json.get<std::uint64_t>();
  }
  static void set(const nlohmann::json& json, double& value) {
    if (json.is_number()) value = json.get<double>();
  }
  const nlohmann::json& find(const char* name) const {
    static const nlohmann::json kMissing;
    const auto member = json_.find(name);
    return member == json_.end() ? kMissing : *member;
  }
  const nlohmann::json::array_t& items(const char* name) const {
    static const nlohmann::json::array_t kNone;
    const auto* list = find(name).get_ptr<const nlohmann::json::array_t*>();
    return list == nullptr ? kNone : *list;
  }

  const nlohmann::json& json_;
};

// Rounds the numbers of an object in place, as FieldWriter writes them.
class FieldRounder {
 public:
  template <typename Row, typename List>
  static void object(Row& row, List list) {
    FieldRounder fields;
    list(fields, row);
  }

  void add(const char* /*name*/, double& value, int digits) const { value = FieldWriter::rounded(value, digits); }
  void add(const char* name, std::optional<double>& value, int digits) const {
    if (value) add(name, *value, digits);
  }
  template <typename Value>
  void add(const char* /*name*/, Value& /*value*/) const {}
  template <typename Value, typename... Digits>
  void add_if_any(const char* name, Value& value, Digits... digits) const {
    add(name, value, digits...);
  }
  template <typename Rows, typename List>
  void add_list(const char* /*name*/, Rows& rows, List list) const {
    for (auto& row : rows) object(row, list);
  }
  template <typename Numbers, typename... Digits>
  void add_numbers(const char* name, Numbers& numbers, Digits... digits) const {
    for (auto& each : numbers) add(name, each, digits...);
  }
};

inline constexpr int kCurveDigits = 9;  // decimal digits; a learning rate is small

// Lists the fields of a Curve.
template <typename Fields, typename Row>
void list_curve(Fields& fields, Row& curve) {
  fields.add("name", curve.name);
  fields.add_numbers("mean", curve.mean, kCurveDigits);
  fields.add_numbers("least", curve.least, kCurveDigits);
  fields.add_numbers("most", curve.most, kCurveDigits);
}

}  // namespace ddp::launcher

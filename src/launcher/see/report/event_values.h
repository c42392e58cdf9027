// Reads values from the JSON of an event log. Nothing is trusted: a value of another type counts as missing.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

inline const nlohmann::json& value_at(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

inline std::string text_at(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = value_at(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

inline std::optional<double> optional_number_at(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = value_at(object, name);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

// Times and sizes are never negative.
inline double number_at(const nlohmann::json& object, const char* name) {
  return std::max(optional_number_at(object, name).value_or(0), 0.0);
}

inline std::uint64_t count_at(const nlohmann::json& object, const char* name) {
  return static_cast<std::uint64_t>(std::min(number_at(object, name), 9e18));
}

inline std::optional<int> optional_integer(const nlohmann::json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(std::abs(number) <= std::numeric_limits<int>::max())) return std::nullopt;
  return static_cast<int>(number);
}

inline int integer_at(const nlohmann::json& object, const char* name) {
  return optional_integer(value_at(object, name)).value_or(0);
}

// Returns the elements of an array, and none of anything else.
inline const std::vector<nlohmann::json>& list_at(const nlohmann::json& object, const char* name) {
  static const std::vector<nlohmann::json> kNone;
  const auto* list = value_at(object, name).get_ptr<const nlohmann::json::array_t*>();
  return list == nullptr ? kNone : *list;
}

inline std::vector<std::string> texts_at(const nlohmann::json& object, const char* name) {
  std::vector<std::string> texts;
  for (const nlohmann::json& each : list_at(object, name)) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

inline std::vector<int> integers_at(const nlohmann::json& object, const char* name) {
  std::vector<int> integers;
  for (const nlohmann::json& each : list_at(object, name)) {
    if (const auto integer = optional_integer(each)) integers.push_back(*integer);
  }
  return integers;
}

}  // namespace ddp::launcher

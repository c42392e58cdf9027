// Writes values to JSON and reads them, from one list of fields per type
// (docs/development/decisions/0081-one-value-through-each-boundary.md). A list stands in the source file of the codec:
//
//   BOOST_DESCRIBE_STRUCT(NodeLeft, (), (attempt, rank))                                  // {"attempt": 0, "rank": 3}
//   auto fields_of(FieldsOf<CallView> auto& call) { return std::tie(call.sequence, call.fingerprint); }      // [7,
//   4711]
//
// The second form, without names, is for values that are sent often. Its last fields may be missing if they are
// optional.
//
// The reader throws an exception for a missing field, a value of another type, and a number that the field cannot hold.
#pragma once

#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp::wire {

using Json = nlohmann::json;

template <typename T>
concept Named = boost::describe::has_describe_members<T>::value;
// For the parameter of fields_of(), which gets values that may be constant.
template <typename Value, typename T>
concept FieldsOf = std::same_as<std::remove_const_t<Value>, T>;
template <typename T>
concept Unnamed = requires(T& value) {
  fields_of(value);
};

template <typename T>
void write_json(Json& json, const T& value);
template <typename T>
void read_json(const Json& json, T& value);

// What nlohmann/json does by itself is left to it. The functions below are for the rest.
template <typename T>
struct JsonForm {
  static void write(Json& json, const T& value) { json = value; }
  static void read(const Json& json, T& value) { json.get_to(value); }
};

template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, char>) struct JsonForm<T> {
  static void write(Json& json, T value) { json = value; }
  static void read(const Json& json, T& value) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<std::uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    if (!fits) throw std::out_of_range("a field holds no such number: " + json.dump());
    value = json.get<T>();
  }
};

// 0 to the last value, which `last_of` returns. Enumerations without it are written by their names.
template <typename T>
requires requires(T value) {
  last_of(value);
}
struct JsonForm<T> {
  static void write(Json& json, T value) { json = static_cast<int>(value); }
  static void read(const Json& json, T& value) {
    std::uint8_t number = 0;
    read_json(json, number);
    if (number > static_cast<int>(last_of(value))) throw std::out_of_range("an enumeration has no such value");
    value = static_cast<T>(number);
  }
};

template <>
struct JsonForm<char> {
  static void write(Json& json, char value) { json = static_cast<int>(value); }
  static void read(const Json& json, char& value) {
    std::int8_t number = 0;
    read_json(json, number);
    value = static_cast<char>(number);
  }
};

template <>
struct JsonForm<std::chrono::nanoseconds> {
  static void write(Json& json, std::chrono::nanoseconds time) { json = time.count(); }
  static void read(const Json& json, std::chrono::nanoseconds& time) {
    std::int64_t count = 0;
    read_json(json, count);
    time = std::chrono::nanoseconds(count);
  }
};

template <typename T>
struct JsonForm<std::optional<T>> {
  static void write(Json& json, const std::optional<T>& value) {
    value ? write_json(json, *value) : void(json = nullptr);
  }
  static void read(const Json& json, std::optional<T>& value) {
    json.is_null() ? value.reset() : read_json(json, value.emplace());
  }
};

template <typename T>
struct JsonForm<std::vector<T>> {
  static void write(Json& json, const std::vector<T>& items) {
    json = Json::array();
    for (const T& item : items) write_json(json.emplace_back(), item);
  }
  static void read(const Json& json, std::vector<T>& items) {
    items.clear();
    for (const Json& item : json.get_ref<const Json::array_t&>()) read_json(item, items.emplace_back());
  }
};

template <Named T>
struct JsonForm<T> {
  static void write(Json& json, const T& value) {
    json = Json::object();
    for_each_field([&](auto field) { write_json(json[field.name], value.*field.pointer); });
  }
  static void read(const Json& json, T& value) {
    for_each_field([&](auto field) { read_json(json.at(field.name), value.*field.pointer); });
  }

 private:
  static void for_each_field(auto visit) {
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_public>>(visit);
  }
};

template <Unnamed T>
struct JsonForm<T> {
  static void write(Json& json, const T& value) {
    json = Json::array();
    std::apply([&](const auto&... field) { (write_json(json.emplace_back(), field), ...); }, fields_of(value));
    while (!json.empty() && json.back().is_null()) json.erase(json.size() - 1);
  }
  static void read(const Json& json, T& value) {
    std::size_t at = 0;
    std::apply([&](auto&... field) { (read_next(json, at, field), ...); }, fields_of(value));
  }

 private:
  template <typename Field>
  static void read_next(const Json& json, std::size_t& at, std::optional<Field>& field) {
    if (at < json.size()) read_json(json.at(at++), field);
  }
  static void read_next(const Json& json, std::size_t& at, auto& field) { read_json(json.at(at++), field); }
};

template <typename T>
void write_json(Json& json, const T& value) {
  JsonForm<T>::write(json, value);
}
template <typename T>
void read_json(const Json& json, T& value) {
  JsonForm<T>::read(json, value);
}
template <typename T>
Json json_of(const T& value) {
  Json json;
  write_json(json, value);
  return json;
}
template <typename T>
T read_json(const Json& json) {
  T value{};
  read_json(json, value);
  return value;
}

}  // namespace ddp::wire

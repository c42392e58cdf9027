// Finding is what a check of `ddplaunch doctor` says about a node. A check that could not read its source says
// `unknown`, with the reason. It never says `ok` about something that it has not seen.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "wire/json_fields.h"

namespace ddp::launcher::doctor {

enum class Grade : std::uint8_t { ok, unknown, warn, fail };

struct Finding {
  std::string check;  // the name of the check, which sets it
  Grade grade = Grade::ok;
  std::string text;    // what was found
  std::string remedy;  // what to do, with the command; empty if there is nothing to do
  // A variable with which a job avoids this, as was proved: "NCCL_P2P_DISABLE=1". Empty if there is none.
  std::string fallback = {};

  friend bool operator==(const Finding&, const Finding&) = default;
};
using Findings = std::vector<Finding>;

inline Finding ok(std::string text) {
  return {"", Grade::ok, std::move(text), ""};
}
inline Finding unknown(std::string text, std::string remedy = "") {
  return {"", Grade::unknown, std::move(text), std::move(remedy)};
}
inline Finding warn(std::string text, std::string remedy) {
  return {"", Grade::warn, std::move(text), std::move(remedy)};
}
inline Finding fail(std::string text, std::string remedy) {
  return {"", Grade::fail, std::move(text), std::move(remedy)};
}

NLOHMANN_JSON_SERIALIZE_ENUM(
    Grade, {{Grade::ok, "ok"}, {Grade::unknown, "unknown"}, {Grade::warn, "warn"}, {Grade::fail, "fail"}})
BOOST_DESCRIBE_STRUCT(Finding, (), (check, grade, text, remedy, fallback))

// Returns a value as one line of JSON. Bytes that are no text are replaced.
template <typename T>
std::string json_text(const T& value) {
  return wire::json_of(value).dump(-1, ' ', false, wire::Json::error_handler_t::replace);
}

// Returns findings that json_text() has written, or std::nullopt.
inline std::optional<Findings> read_findings(const std::string& text) {
  try {
    Findings findings;
    wire::read_json(wire::Json::parse(text), findings);
    return findings;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddp::launcher::doctor

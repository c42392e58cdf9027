#include "wire/fault.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/duration.h"
#include "base/text.h"
#include "wire/call_names.h"

namespace ddp::wire {
namespace {

using base::Failure;
using base::Result;

// Removes the spelling differences between "allreduce", "AllReduce" and "all_reduce".
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_' && c != '-') result += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return result;
}

template <typename Names>
std::string list(const Names& names) {
  std::string result;
  for (const std::string_view name : names) result += (result.empty() ? "" : ", ") + std::string(name);
  return result;
}

std::optional<std::chrono::milliseconds> parse_delay(std::string_view text) {
  const auto time = base::parse_duration(text);
  if (!time || time->count() > 1e6) return std::nullopt;
  return std::chrono::round<std::chrono::milliseconds>(*time);
}

std::optional<Failure> set_place(Fault& fault, std::string_view value) {
  if (!value.empty() && value[0] >= '0' && value[0] <= '9') {
    fault.after = parse_delay(value);
    if (fault.after) return std::nullopt;
  }
  const std::size_t colon = value.find(':');
  const auto number = colon == std::string_view::npos
                          ? std::optional<std::int64_t>(1)
                          : base::parse_integer(value.substr(colon + 1), 1, std::numeric_limits<std::int64_t>::max());
  const std::string name = plain(value.substr(0, colon));
  const auto operation = std::find_if(kOperationNames.begin(), kOperationNames.end(),
                                      [&](std::string_view candidate) { return plain(candidate) == name; });
  if (!number || (operation == kOperationNames.end() && name != "any")) {
    return Failure{"'" + std::string(value) +
                   "' is not a valid place: at=all_reduce:100 is this rank's 100th all_reduce, at=any:100 its "
                   "100th collective, and at=10s is a time after the start. Operations: " +
                   list(kOperationNames)};
  }
  if (operation != kOperationNames.end()) fault.operation = *operation;
  fault.number = static_cast<std::uint64_t>(*number);
  return std::nullopt;
}

std::optional<Failure> set_kind(Fault& fault, std::string_view value) {
  const std::string_view name = value.substr(0, value.find('='));
  const auto kind = std::find(kFaultNames.begin(), kFaultNames.end(), name);
  const bool is_delay = name == "delay";
  const auto delay = name == value ? std::nullopt : parse_delay(value.substr(name.size() + 1));
  if (kind == kFaultNames.end() || is_delay != delay.has_value() || (!is_delay && name != value)) {
    return Failure{"'" + std::string(value) + "' is not a kind of fault. Kinds: " + list(kFaultNames) +
                   "; delay needs a time, as in kind=delay=5s"};
  }
  fault.kind = static_cast<FaultKind>(kind - kFaultNames.begin());
  fault.delay = delay.value_or(std::chrono::milliseconds(0));
  return std::nullopt;
}

std::optional<Failure> set_number(int& number, std::string_view key, std::string_view value) {
  const auto parsed = base::parse_integer(value, 0, std::numeric_limits<int>::max());
  if (!parsed) return Failure{std::string(key) + "=" + std::string(value) + " is not a whole number from 0"};
  number = static_cast<int>(*parsed);
  return std::nullopt;
}

}  // namespace

Result<Fault> parse_fault(std::string_view text) {
  const std::string example = " A fault is written as rank=2,at=all_reduce:100,kind=stop.";
  Fault fault;
  std::vector<std::string> given;
  for (const std::string& field : base::split(text, ',')) {
    const std::string key = field.substr(0, field.find('='));
    const std::string value = key.size() < field.size() ? field.substr(key.size() + 1) : "";
    std::optional<Failure> failure;
    if (std::find(given.begin(), given.end(), key) != given.end()) {
      failure = Failure{"'" + key + "' is given twice"};
    } else if (key == "rank") {
      failure = set_number(fault.rank, key, value);
    } else if (key == "attempt") {
      failure = set_number(fault.attempt, key, value);
    } else if (key == "at") {
      failure = set_place(fault, value);
    } else if (key == "kind") {
      failure = set_kind(fault, value);
    } else {
      failure = Failure{"'" + field + "' is not one of rank=, at=, kind=, attempt="};
    }
    if (failure) return Failure{failure->message + "." + example};
    given.push_back(key);
  }
  for (const char* needed : {"rank", "at", "kind"}) {
    if (std::find(given.begin(), given.end(), needed) == given.end()) {
      return Failure{std::string(needed) + "= is missing." + example};
    }
  }
  const std::array<FaultKind, 3> at_a_time = {FaultKind::stop, FaultKind::kill, FaultKind::delay};
  if (fault.after && std::find(at_a_time.begin(), at_a_time.end(), fault.kind) == at_a_time.end()) {
    return Failure{"only stop, kill and delay can happen at a time; '" +
                   std::string(name_of(kFaultNames, static_cast<std::uint64_t>(fault.kind))) + "' needs a call." +
                   example};
  }
  return fault;
}

Result<std::vector<Fault>> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  for (const std::string& one : base::split(text, ' ')) {
    if (one.empty()) continue;
    const auto fault = parse_fault(one);
    if (!fault) return Failure{(one == text ? "" : "'" + one + "': ") + fault.error().message};
    faults.push_back(fault.value());
  }
  return faults;
}

}  // namespace ddp::wire

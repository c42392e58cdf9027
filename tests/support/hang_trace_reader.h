// Reads the lines of a hang trace (launcher/run/ranks/hang_trace.h), which the launcher only writes.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/run/ranks/process_activity.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/shown_ranks.h"

namespace ddp::net {

inline void from_json(const nlohmann::json& json, TcpBytes& connection) {
  connection.inode = json.at(0);
  connection.bytes = json.at(1);
}

}  // namespace ddp::net

namespace ddp::launcher {

inline void from_json(const nlohmann::json& json, ProcessCounters& process) {
  process = {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5), json.at(6)};
  if (json.size() > 7) process.waited = std::chrono::nanoseconds(json.at(7).get<std::int64_t>());
}

inline void from_json(const nlohmann::json& json, ActivitySample& sample) {
  sample.processes = json.at("processes").get<std::vector<ProcessCounters>>();
  sample.connections = json.at("connections").get<std::vector<net::TcpBytes>>();
  sample.output_bytes = json.at("output_bytes");
  sample.is_complete = json.at("is_complete");
}

// Describes what the processes of a rank had done. It is added to the rank's activity at the next sample.
struct TracedSample {
  int rank = 0;
  std::chrono::nanoseconds now{0};
  ActivitySample sample;
};

struct TracedRanks {
  std::chrono::nanoseconds elapsed{0};  // time since the last sample
  int samples = 1;                      // number of samples that this one stands for, if nothing was new in them
  std::uint64_t now = 0;                // CLOCK_MONOTONIC in nanoseconds; 0 if nothing was new
  std::vector<RankView> ranks;

  bool has_news() const { return now != 0; }
};

// Says why there was a verdict on the last sample, or none.
struct TracedExplanation {
  std::string text;
};

using TracedLine = std::variant<TracedRanks, TracedSample, TracedExplanation>;

inline TracedSample traced_sample(const nlohmann::json& json) {
  TracedSample traced{json.at("rank"), std::chrono::nanoseconds(json.at("now").get<std::int64_t>()), json.at("sample")};
  if (json.contains("gpu")) {
    const nlohmann::json& moved = json.at("gpu").at(1);
    traced.sample.gpu = {json.at("gpu").at(0), moved.is_null() ? std::nullopt : std::optional<std::uint64_t>(moved)};
  }
  traced.sample.handed_on = json.value("handed_on", std::uint64_t{0});
  return traced;
}

inline TracedRanks traced_ranks(const nlohmann::json& json) {
  TracedRanks sample;
  sample.elapsed = std::chrono::nanoseconds(json.at("elapsed").get<std::int64_t>());
  sample.samples = json.value("samples", 1);
  sample.now = json.value("now", std::uint64_t{0});
  if (sample.has_news()) sample.ranks = read_ranks(json.at("ranks").dump(), "", std::chrono::nanoseconds(0));
  return sample;
}

// Returns std::nullopt if the line is not valid.
inline std::optional<TracedLine> parse_traced_line(std::string_view line) try {
  const nlohmann::json json = nlohmann::json::parse(line);
  if (json.contains("sample")) return traced_sample(json);
  if (json.contains("explanation")) return TracedExplanation{json.at("explanation")};
  return traced_ranks(json);
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace ddp::launcher

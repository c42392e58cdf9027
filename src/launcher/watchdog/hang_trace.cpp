#include "launcher/watchdog/hang_trace.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"
#include "launcher/watchdog/shown_ranks.h"

namespace ddp::net {

void to_json(nlohmann::json& json, const TcpBytes& connection) {
  json = {connection.inode, connection.bytes};
}
void from_json(const nlohmann::json& json, TcpBytes& connection) {
  connection.inode = json.at(0);
  connection.bytes = json.at(1);
}

}  // namespace ddp::net

namespace ddp::launcher {

// Without names: there are many.
void to_json(nlohmann::json& json, const ProcessCounters& process) {
  json = {process.pid,          process.started,  process.cpu_ticks,  process.minor_faults,
          process.major_faults, process.io_bytes, process.is_runnable};
  if (process.waited) json.push_back(process.waited->count());
}
void from_json(const nlohmann::json& json, ProcessCounters& process) {
  process = {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5), json.at(6)};
  if (json.size() > 7) process.waited = std::chrono::nanoseconds(json.at(7).get<std::int64_t>());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ActivitySample, processes, connections, output_bytes, is_complete)

namespace {

using Json = nlohmann::json;

TracedSample sample_of(const Json& json) {
  TracedSample traced{json.at("rank"), std::chrono::nanoseconds(json.at("now").get<std::int64_t>()), json.at("sample")};
  if (json.contains("gpu")) {
    const Json& moved = json.at("gpu").at(1);
    traced.sample.gpu = {json.at("gpu").at(0), moved.is_null() ? std::nullopt : std::optional<std::uint64_t>(moved)};
  }
  traced.sample.handed_on = json.value("handed_on", std::uint64_t{0});
  return traced;
}

TracedRanks ranks_of(const Json& json) {
  TracedRanks sample;
  sample.elapsed = std::chrono::nanoseconds(json.at("elapsed").get<std::int64_t>());
  sample.samples = json.value("looks", 1);
  sample.now = json.value("now", std::uint64_t{0});
  if (sample.has_news()) sample.ranks = read_ranks(json.at("ranks").dump(), "", std::chrono::nanoseconds(0));
  return sample;
}

}  // namespace

std::optional<TracedLine> parse_traced_line(std::string_view line) try {
  const Json json = Json::parse(line);
  if (json.contains("sample")) return sample_of(json);
  return ranks_of(json);
} catch (const Json::exception&) {
  return std::nullopt;
}

HangTrace::HangTrace(const std::string& path, Failed failed) : failed_(std::move(failed)) {
  if (path.empty()) return;
  base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  if (file) {
    file_ = LogFile(path, std::move(file));
  } else {
    failed_("cannot write to DDP_HANG_TRACE=" + path + ": " + std::strerror(errno) + ". The job runs without it.");
  }
}

void HangTrace::add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed, std::uint64_t now) {
  if (!file_) return;
  write_quiet();
  file_.write(R"({"elapsed":)" + std::to_string(elapsed.count()) + R"(,"now":)" + std::to_string(now) + R"(,"ranks":)" +
                  show_ranks(ranks, ShownCalls::all) + "}\n",
              failed_);
}

void HangTrace::sample(int rank, const ActivitySample& sample, std::chrono::nanoseconds now) {
  if (!file_) return;
  Json json = {{"rank", rank}, {"now", now.count()}, {"sample", sample}};
  if (sample.handed_on > 0) json["handed_on"] = sample.handed_on;
  if (sample.gpu) {
    json["gpu"] = {sample.gpu->busy_percent, sample.gpu->moved_bytes ? Json(*sample.gpu->moved_bytes) : Json(nullptr)};
  }
  file_.write(json.dump() + "\n", failed_);
}

void HangTrace::nothing_new(std::chrono::nanoseconds elapsed) {
  quiet_ += elapsed;
  ++quiet_samples_;
}

void HangTrace::write_quiet() {
  const auto elapsed = std::exchange(quiet_, std::chrono::nanoseconds(0));
  const int samples = std::exchange(quiet_samples_, 0);
  if (samples == 0) return;
  file_.write(R"({"elapsed":)" + std::to_string(elapsed.count()) + R"(,"looks":)" + std::to_string(samples) + "}\n",
              failed_);
}

}  // namespace ddp::launcher

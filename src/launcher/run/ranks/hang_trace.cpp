#include "launcher/run/ranks/hang_trace.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"
#include "launcher/run/ranks/shown_ranks.h"

namespace ddp::net {

void to_json(nlohmann::json& json, const TcpBytes& connection) {
  json = {connection.inode, connection.bytes};
}

}  // namespace ddp::net

namespace ddp::launcher {

// The fields are written without names, because a trace contains many processes.
void to_json(nlohmann::json& json, const ProcessCounters& process) {
  json = {process.pid,          process.started,  process.cpu_ticks,  process.minor_faults,
          process.major_faults, process.io_bytes, process.is_runnable};
  if (process.waited) json.push_back(process.waited->count());
}

HangTrace::HangTrace(const std::string& path, Failed failed) : failed_(std::move(failed)) {
  if (path.empty()) return;
  base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  if (file) {
    file_ = LogFile(path, std::move(file));
  } else {
    failed_("cannot write to DDP_HANG_TRACE=" + path + ": " + std::strerror(errno) + ". The job continues without it.");
  }
}

void HangTrace::add(const Picture& picture) {
  if (!file_) return;
  if (!picture.has_news) {
    quiet_ += picture.elapsed;
    ++quiet_samples_;
    return;
  }
  write_quiet();
  file_.write(R"({"elapsed":)" + std::to_string(picture.elapsed.count()) + R"(,"now":)" +
                  std::to_string(picture.taken_at) + R"(,"ranks":)" + show_ranks(picture.ranks, ShownCalls::all) +
                  "}\n",
              failed_);
}

void HangTrace::explain(const std::string& explanation) {
  if (!file_) return;
  const nlohmann::json json = {{"explanation", explanation}};
  file_.write(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", failed_);
}

void HangTrace::sample(int rank, const ActivitySample& sample, std::chrono::nanoseconds now) {
  using Json = nlohmann::json;
  if (!file_) return;
  const Json sampled = {{"processes", sample.processes},
                        {"connections", sample.connections},
                        {"output_bytes", sample.output_bytes},
                        {"is_complete", sample.is_complete}};
  Json json = {{"rank", rank}, {"now", now.count()}, {"sample", sampled}};
  if (sample.handed_on > 0) json["handed_on"] = sample.handed_on;
  if (sample.gpu) {
    json["gpu"] = {sample.gpu->busy_percent, sample.gpu->moved_bytes ? Json(*sample.gpu->moved_bytes) : Json(nullptr)};
  }
  file_.write(json.dump() + "\n", failed_);
}

void HangTrace::write_quiet() {
  const auto elapsed = std::exchange(quiet_, std::chrono::nanoseconds(0));
  const int samples = std::exchange(quiet_samples_, 0);
  if (samples == 0) return;
  file_.write(R"({"elapsed":)" + std::to_string(elapsed.count()) + R"(,"samples":)" + std::to_string(samples) + "}\n",
              failed_);
}

}  // namespace ddp::launcher

#include "launcher/run/ranks/activity_meter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace ddp::launcher {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

struct Text {
  std::string_view name;
  std::string_view description;
};
// The elements are in the order of Sign.
constexpr std::array<Text, 9> kSigns = {
    Text{"none", "it shows no sign of life"},
    {"output", "it writes output"},
    {"processes", "its processes start or exit"},
    {"processor", "it uses a processor"},
    {"runnable", "it is ready to run but gets no processor"},
    {"faults", "it touches new memory"},
    {"io", "it reads or writes"},
    {"network", "it sends or receives"},
    {"gpu", "its GPU is busy"},
};

// A counter that has become smaller belongs to something else, so its value says nothing about growth.
std::uint64_t growth(std::uint64_t before, std::uint64_t now) {
  return now > before ? now - before : 0;
}

}  // namespace

// Contains the activity between two samples.
struct ActivityMeter::Difference {
  bool has_printed = false;
  bool processes_changed = false;  // a process has begun or ended
  std::uint64_t cpu_ticks = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t io_bytes = 0;
  std::uint64_t network_bytes = 0;
  std::uint64_t handed_on = 0;
  std::uint64_t far_bytes = 0;
  std::optional<std::uint64_t> gpu_bytes;
  std::optional<Nanoseconds> waited = Nanoseconds(0);  // time spent waiting for a processor; std::nullopt if unknown
};

ActivityMeter::Difference ActivityMeter::difference(const ActivitySample& before, const ActivitySample& now) {
  Difference result;
  result.has_printed = before.output_bytes != now.output_bytes;
  result.handed_on = growth(before.handed_on, now.handed_on);
  result.far_bytes = growth(before.far_bytes, now.far_bytes);
  std::map<std::pair<pid_t, std::uint64_t>, const ProcessCounters*> known;
  for (const ProcessCounters& process : before.processes) known[{process.pid, process.started}] = &process;
  std::size_t still_there = 0;
  for (const ProcessCounters& process : now.processes) {
    const auto found = known.find({process.pid, process.started});
    if (found == known.end()) continue;
    const ProcessCounters& then = *found->second;
    ++still_there;
    result.cpu_ticks += growth(then.cpu_ticks, process.cpu_ticks);
    result.minor_faults += growth(then.minor_faults, process.minor_faults);
    result.major_faults += growth(then.major_faults, process.major_faults);
    result.io_bytes += growth(then.io_bytes, process.io_bytes);
    // The value is smaller if threads have ended. How long they have waited is unknown.
    if (!then.waited || !process.waited || *process.waited < *then.waited) result.waited.reset();
    if (result.waited) *result.waited += *process.waited - *then.waited;
  }
  result.processes_changed = still_there != before.processes.size() || still_there != now.processes.size();
  std::map<std::uint64_t, std::uint64_t> connections;
  for (const net::TcpBytes& connection : before.connections) connections[connection.inode] = connection.bytes;
  for (const net::TcpBytes& connection : now.connections) {
    const auto found = connections.find(connection.inode);
    // All bytes of a new connection have moved since `before`.
    result.network_bytes += growth(found == connections.end() ? 0 : found->second, connection.bytes);
  }
  const bool counts_gpu_data = before.gpu && now.gpu && before.gpu->moved_bytes && now.gpu->moved_bytes;
  if (counts_gpu_data) result.gpu_bytes = growth(*before.gpu->moved_bytes, *now.gpu->moved_bytes);
  return result;
}

std::string_view name_of(Sign sign) {
  return kSigns[static_cast<std::size_t>(sign)].name;
}

std::string_view describe(Sign sign) {
  return kSigns[static_cast<std::size_t>(sign)].description;
}

void ActivityMeter::add(const ActivitySample& sample, Nanoseconds now) {
  const Nanoseconds elapsed = now - std::exchange(seen_, now);
  if (elapsed > thresholds_.longest_gap) {
    window_.reset();
    activity_.reset();
  }
  // Nothing but the program's own operations moves data between ranks.
  const bool has_exchanged = window_ && growth(peer_bytes_, sample.peer_bytes) > 0;
  peer_bytes_ = sample.peer_bytes;
  if (!window_) window_ = Window{sample, now};
  const bool is_runnable = std::ranges::any_of(sample.processes, &ProcessCounters::is_runnable);
  ++window_->samples;
  if (is_runnable) ++window_->runnable_samples;
  if (sample.gpu && sample.gpu->busy_percent >= thresholds_.gpu_busy_percent) window_->gpu_was_busy = true;
  const Nanoseconds length = now - window_->began;
  if (length <= Nanoseconds(0)) return;

  static const double ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const Difference done = difference(window_->first, sample);
  RankActivity activity = activity_.value_or(RankActivity{});
  activity.cpu_share =
      static_cast<double>(done.cpu_ticks) / ticks_a_second / std::chrono::duration<double>(length).count();
  activity.is_complete = window_->first.is_complete && sample.is_complete;
  activity.counts_gpu_data = done.gpu_bytes.has_value();
  if (activity.exchanged_ago) *activity.exchanged_ago += elapsed;
  if (has_exchanged) activity.exchanged_ago = Nanoseconds(0);
  if (length >= thresholds_.window) {
    const bool has_moved = done.network_bytes >= thresholds_.network_bytes || done.handed_on > 0 ||
                           done.gpu_bytes.value_or(0) >= thresholds_.gpu_bytes;
    if (done.far_bytes >= thresholds_.network_bytes) activity.exchanged_ago = Nanoseconds(0);
    activity.last_sign = sign_in(done, activity.cpu_share, length);
    // Data that could not be read may have been a sign of life.
    const Nanoseconds known = activity.is_complete ? length : Nanoseconds(0);
    activity.still_for = activity.last_sign == Sign::none ? activity.still_for + known : Nanoseconds(0);
    activity.unmoved_for = has_moved ? Nanoseconds(0) : activity.unmoved_for + known;
    window_ = Window{sample, now};
  }
  activity_ = activity;
}

// A thread that wakes repeatedly for a moment may be runnable in each sample, because one timer interrupt wakes both
// the thread and the launcher. Such a thread hardly waits for a processor.
bool ActivityMeter::wants_to_run(const Difference& done, Nanoseconds length) const {
  if (!done.waited) return window_->runnable_samples >= (window_->samples > 3 ? thresholds_.runnable_samples : 1);
  return window_->runnable_samples == window_->samples ||
         std::chrono::duration<double>(*done.waited) >=
             thresholds_.waiting_share * std::chrono::duration<double>(length);
}

Sign ActivityMeter::sign_in(const Difference& done, double cpu_share, Nanoseconds length) const {
  if (done.has_printed) return Sign::output;
  if (done.processes_changed) return Sign::processes;
  if (cpu_share >= thresholds_.cpu_share) return Sign::processor;
  if (wants_to_run(done, length)) return Sign::runnable;
  if (done.major_faults >= thresholds_.major_faults || done.minor_faults >= thresholds_.minor_faults) {
    return Sign::faults;
  }
  if (done.io_bytes >= thresholds_.io_bytes) return Sign::io;
  if (done.network_bytes >= thresholds_.network_bytes) return Sign::network;
  const bool gpu_works = window_->gpu_was_busy || done.gpu_bytes.value_or(0) >= thresholds_.gpu_bytes;
  return gpu_works ? Sign::gpu : Sign::none;
}

}  // namespace ddp::launcher

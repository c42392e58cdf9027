#include "launcher/run/job/worker_group.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "base/exit_code.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/process_stat.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/output/line_splitter.h"
#include "launcher/run/process/image_writer.h"
#include "launcher/run/process/process_sample.h"

namespace ddp::launcher {
namespace {

class LocalWorkers : public WorkerGroup {
 public:
  LocalWorkers(ProcessHost& processes, RankProbe& probe, const LaunchPlan& plan, RunDirectory& directory,
               OutputPump& output, std::function<void()> poll, LogWriter log)
      : processes_(processes),
        probe_(probe),
        plan_(plan),
        directory_(directory),
        output_(output),
        poll_(std::move(poll)),
        log_(std::move(log)),
        states_(keeps_states(plan) ? StateMemory(plan.workers) : StateMemory()),
        images_(states_.areas() > 0 ? plan.image_dir : "", log_) {}

  std::optional<base::Failure> begin(const Placement& placement, const std::string& last_failure) override {
    placement_ = placement;
    output_.set_node(node_name(plan_.host_name, placement));
    last_failure_ = last_failure;
    running_.clear();
    oom_.emplace();
    states_.begin(placement.restore);
    return directory_.begin_attempt(placement.attempt, plan_.workers);
  }

  base::Result<StartedWorker, StartFailure> start(int local_rank) override {
    const auto file = [&](const char* name) { return directory_.file(local_rank, name); };
    WorkerSpec spec = make_worker_spec(
        plan_, placement_, {local_rank, file("error.json"), last_failure_, directory_.torch_file(local_rank)});
    const auto streams =
        output_.open({local_rank, placement_.first_rank + local_rank},
                     {file("stdout.log"), file("stderr.log"), directory_.attempt_file("filtered_stdout.log"),
                      directory_.attempt_file("filtered_stderr.log")});
    if (!streams) return StartFailure{base::kExitOwnFault, streams.error().message};
    WorkerDescriptors inherited = probe_.open(local_rank, spec);
    inherited.out = streams.value().out.get();
    inherited.err = streams.value().err.get();
    inherited.states = states_.descriptor();
    const auto pid = processes_.spawn(local_rank, spec, inherited);
    if (!pid) return pid.error();
    probe_.started(local_rank, pid.value());
    running_[local_rank] = pid.value();
    return StartedWorker{pid.value(), std::move(spec.environment)};
  }

  bool is_preparing() const override { return processes_.is_preparing(); }
  void on_exit(ProcessHost::ExitCallback callback) override {
    processes_.on_exit([this, callback = std::move(callback)](int local_rank, const WorkerExit& exit) {
      running_.erase(local_rank);
      probe_.ended(local_rank);
      if (callback) callback(local_rank, exit);
    });
  }

  bool signal(int local_rank, int signal, SignalTarget target) override {
    return processes_.signal(local_rank, signal, target);
  }
  void mark_peer_lost(int rank) override { probe_.mark_peer_lost(rank); }
  void request_stop() override { probe_.request_stop(); }
  void ask_for_states() override { states_.ask(); }
  void check_states() override {
    states_.say_room();
    images_.write_newest(states_, placement_);
  }
  bool have_kept_states(std::span<const int> local_ranks) override {
    std::vector<int> able(local_ranks.begin(), local_ranks.end());
    std::erase_if(able, [&](int local_rank) { return is_stopped(local_rank); });
    return states_.have_answered(able, placement_.attempt);
  }
  std::vector<wire::KeptState> kept_states() override { return states_.kept(); }
  std::optional<ErrorRecord> error_of(int local_rank) override {
    return read_error_record(directory_.file(local_rank, "error.json"));
  }
  std::optional<ErrorRecord> error_at_end(int local_rank, const base::ExitStatus& status) override {
    if (auto written = error_of(local_rank)) return written;
    if (auto printed = error_record_of(output_.printed_error(local_rank), status)) return printed;
    if (!status.was_killed()) return std::nullopt;
    auto handled = read_error_record(directory_.torch_file(local_rank) + ".handled");
    if (handled) handled->had_own_error = !std::exchange(handled->is_secondary, true);
    return handled;
  }
  std::string crash_place_of(int local_rank, const base::ExitStatus& status) override {
    if (!base::contains(base::kFaults, status.signal())) return "";
    return place_of_crash(base::read_file(directory_.torch_file(local_rank) + ".stacks"));
  }
  std::string gpu_of(int local_rank) override {
    RankView view;
    probe_.sample(local_rank, SampleDepth::pages, view);
    return view.page.gpu_uuid;
  }
  std::optional<OomKill> new_oom_kill() override { return oom_->new_kill(); }

  Remains end(const std::function<bool()>& interrupted, bool has_succeeded) override {
    Remains remains;
    has_succeeded_ = has_succeeded;
    if (has_succeeded) part_with_leftovers(interrupted);
    // This ends the processes that hold the ends of the pipes.
    remains.leftovers = processes_.end_leftovers();
    output_.interrupted = [&] { return is_interrupted(interrupted); };
    output_.drain();
    output_.interrupted = nullptr;
    remains.lost_lines = output_.lost_lines().untold;
    return remains;
  }

  std::vector<store::RankedSocket> sockets() const override {
    const auto until = std::chrono::steady_clock::now() + limits::kStoreNamingTime;
    std::vector<store::RankedSocket> sockets;
    for (const auto& [local_rank, pid] : running_) {
      const int rank = placement_.first_rank + local_rank;
      for (const HeldSocket& socket : sockets_of(pid, until)) {
        const std::string holder = node_name(plan_.host_name, placement_) + ":" + std::to_string(socket.holder);
        sockets.push_back({socket.inode, {rank, placement_.world_size, holder}});
      }
    }
    return sockets;
  }

  void print_elsewhere(std::function<std::optional<std::size_t>(int which, std::string_view bytes)> take,
                       std::function<int()> waits_for) override {
    output_.redirect(take, waits_for);
  }
  void room_elsewhere() override { output_.room_elsewhere(); }
  void show_of_node(std::uint64_t node, int which, std::string_view bytes) override {
    gathered_.feed(node, which, bytes);
  }
  void finish_images(const std::function<bool()>& interrupted) override {
    if (!has_succeeded_) images_.finish(states_, placement_, [&] { return is_interrupted(interrupted); });
  }
  void finish_output() override {
    gathered_.finish();
    output_.drain();
  }

 private:
  bool is_interrupted(const std::function<bool()>& interrupted) const {
    poll_();
    return interrupted();
  }

  // A worker that a signal or a debugger has stopped keeps nothing.
  bool is_stopped(int local_rank) const {
    const auto worker = running_.find(local_rank);
    const auto stat = worker == running_.end() ? std::nullopt : base::read_process_stat(worker->second);
    return stat && (stat->state == 'T' || stat->state == 't');
  }

  // Some processes end with their parent but need a moment, for instance Python's resource tracker.
  void part_with_leftovers(const std::function<bool()>& interrupted) {
    const auto end_of_moment = std::chrono::steady_clock::now() + limits::kLeftoverMoment;
    bool is_reported = false;
    for (std::vector<pid_t> left = processes_.leftovers(); !left.empty(); left = processes_.leftovers()) {
      const bool is_over = std::chrono::steady_clock::now() >= end_of_moment;
      if (is_over && !std::exchange(is_reported, true)) {
        log_({LogLevel::note, LogSource::job,
              base::counted(std::ssize(left), "process") + " of the job still " +
                  base::plural(left.size(), "runs", "run") + " although all ranks have exited: " + describe(left) +
                  (plan_.let_finish ? ". Waiting for them (--let-finish)"
                                    : ". They were terminated; --let-finish waits for them")});
      }
      if ((is_over && !plan_.let_finish) || interrupted()) return;
      poll_();
      std::this_thread::sleep_for(limits::kLeftoverPoll);
    }
  }

  // Returns a text such as "pid 4711 (python upload.py), …", for the first few processes.
  static std::string describe(const std::vector<pid_t>& processes) {
    constexpr std::size_t kMost = 4;
    constexpr std::size_t kMostColumns = 60;
    std::vector<std::string> parts;
    for (const pid_t pid : processes) {
      if (parts.size() == kMost) break;
      std::string command = base::read_file("/proc/" + std::to_string(pid) + "/cmdline");
      std::ranges::replace(command, '\0', ' ');
      parts.push_back("pid " + std::to_string(pid) + " (" + base::printable(base::trimmed(command, " "), kMostColumns) +
                      ")");
    }
    return base::join(parts, ", ") + (processes.size() > kMost ? ", …" : "");
  }

  ProcessHost& processes_;
  RankProbe& probe_;
  const LaunchPlan& plan_;
  RunDirectory& directory_;
  OutputPump& output_;
  const std::function<void()> poll_;
  const LogWriter log_;
  StateMemory states_;
  ImageWriter images_;
  bool has_succeeded_ = false;
  GatheredLines gathered_{[this](int which, std::string_view line) { output_.show_gathered(which, line); }};
  Placement placement_;
  std::string last_failure_;
  std::map<int, pid_t> running_;  // pids by local rank
  std::optional<OomWatch> oom_;   // watch of this attempt
};

}  // namespace

bool another_failed_before(WorkerGroup& workers, std::span<const int> alive, const std::optional<ErrorRecord>& record) {
  return std::ranges::any_of(alive, [&](int local_rank) {
    const auto other = workers.error_of(local_rank);
    if (!other || other->is_secondary) return false;
    return !record || record->is_secondary || other->written_at < record->written_at;
  });
}

std::unique_ptr<WorkerGroup> make_worker_group(ProcessHost& processes, RankProbe& probe, const LaunchPlan& plan,
                                               RunDirectory& directory, OutputPump& output, std::function<void()> poll,
                                               LogWriter log) {
  return std::make_unique<LocalWorkers>(processes, probe, plan, directory, output, std::move(poll), std::move(log));
}

}  // namespace ddp::launcher

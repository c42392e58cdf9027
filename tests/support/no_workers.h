// NoWorkers is a WorkerGroup whose workers cannot be started. Tests override the functions that they need.
#pragma once

#include <functional>

#include "launcher/run/job/worker_group.h"

namespace ddp::launcher {

class NoWorkers : public WorkerGroup {
 public:
  std::optional<base::Failure> begin(const Placement&, const std::string&) override { return std::nullopt; }
  base::Result<StartedWorker, StartFailure> start(int) override { return StartFailure{125, "there are none"}; }
  void on_exit(ProcessHost::ExitCallback) override {}
  bool signal(int, int, SignalTarget) override { return true; }
  void mark_peer_lost(int) override {}
  std::optional<ErrorRecord> error_of(int) override { return std::nullopt; }
  void request_stop() override {}
  std::optional<ErrorRecord> error_at_end(int, const base::ExitStatus&) override { return std::nullopt; }
  std::string crash_place_of(int, const base::ExitStatus&) override { return ""; }
  std::optional<OomKill> new_oom_kill() override { return std::nullopt; }
  Remains end(const std::function<bool()>&, bool) override { return {}; }
  std::vector<store::RankedSocket> sockets() const override { return {}; }
  void print_elsewhere(std::function<std::optional<std::size_t>(int, std::string_view)>,
                       std::function<int()>) override {}
  void room_elsewhere() override {}
  void show_of_node(std::uint64_t, int, std::string_view) override {}
  void finish_output() override {}
};

}  // namespace ddp::launcher

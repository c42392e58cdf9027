// Preloader forks workers from a Python that has imported modules
// (docs/development/decisions/0073-workers-are-forked-from-an-interpreter-that-has-imported.md).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/run/process/helper.h"
#include "launcher/run/process/spawn.h"
#include "launcher/start/plan/launch_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Describes the process from which workers are forked. make_preload_spec() is pure.
struct PreloadSpec {
  std::string refused;                   // why there is none, without a full stop; empty if there is one
  std::vector<std::string> probe;        // starts the same Python without a program
  std::vector<std::string> command;      // that of a worker
  std::vector<std::string> environment;  // "NAME=value" lines: those that do not depend on rank, node and attempt
  std::string modules;                   // value of wire::env::kPreload, which the environment lacks
};

PreloadSpec make_preload_spec(const LaunchPlan& plan);

struct PreloaderCallbacks {
  std::function<void(const std::string& text)> note;  // for the user: how workers are started from now on, and why
  std::function<void()> is_decided;                   // is_importing() has become false
};

// Used only from the event loop's thread.
class Preloader {
 public:
  // Starts the preloader. It is killed when the launcher ends.
  Preloader(net::EventLoop& loop, const PreloadSpec& spec, PreloaderCallbacks callbacks);
  Preloader(const Preloader&) = delete;
  Preloader& operator=(const Preloader&) = delete;

  // Returns whether it is not yet known if workers can be forked.
  bool is_importing() const { return state_ == State::asking || state_ == State::importing; }
  // Returns the process from which workers are forked, or 0 if they are started.
  pid_t pid() const { return state_ == State::ready ? pid_ : 0; }

  // Forks the worker as spawn_worker() would start it. The same holds for the result. Returns std::nullopt if the
  // worker has to be started: then nothing of it is left. Blocks for limits::kForkTime at most.
  std::optional<Spawned> fork(const WorkerSpec& spec, const WorkerDescriptors& descriptors);

 private:
  // It asks whether Python runs ddplaunch's code, starts the preloader if so, and waits for the end of its import.
  enum class State : std::uint8_t { asking, importing, ready, over };

  void start(const std::vector<std::string>& command, const std::string& modules);
  void ended(const base::ExitStatus& status);
  void hear();
  void check();
  void read(std::string_view bytes);
  void give_up(const std::string& why);
  void end();
  std::optional<Spawned> let_go(int channel, std::string_view pid);

  net::EventLoop& loop_;
  const PreloadSpec spec_;
  const PreloaderCallbacks callbacks_;
  State state_ = State::asking;
  pid_t pid_ = 0;
  base::UniqueFd control_;
  std::unique_ptr<net::Watch> watch_;
  std::unique_ptr<net::Watch> alarm_;  // while it imports
  std::chrono::steady_clock::time_point begun_at_;
  std::unique_ptr<Helper> process_;
  std::string line_;  // the begin of a line that it prints
};

}  // namespace ddp::launcher

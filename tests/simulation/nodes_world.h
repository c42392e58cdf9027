// NodesWorld simulates a run of a job on one or several nodes from a seed, in virtual time. It has a coordinator and
// nodes, whose launcher is a JobDriver with an agent, fake workers and a fake watchdog. Connections are slow, stall and
// break, and faults disturb all parts.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "launcher/run/job/agent.h"
#include "launcher/run/job/coordinator.h"
#include "launcher/run/job/job_driver.h"
#include "simulation/nodes_rules.h"

namespace ddp::test {

class NodesWorld {
 public:
  // Simulates a job of `nodes` nodes, or of a few more or fewer.
  NodesWorld(std::uint64_t seed, int nodes);
  ~NodesWorld();
  NodesWorld(const NodesWorld&) = delete;
  NodesWorld& operator=(const NodesWorld&) = delete;

  // Returns the rule that was broken, and when, or an empty string if none was.
  std::string live();

  struct Counts {
    std::uint64_t events = 0, faults = 0, attempts = 0, machines = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  using TimePoint = NodesRules::TimePoint;
  using Duration = NodesRules::Duration;

  enum class Kind : std::uint8_t {
    coordinator_tick,
    node_tick,
    alarm,           // a driver's alarm rings
    driver_works,    // a driver works, with a delay
    to_coordinator,  // the first message in transit arrives
    to_node,
    worker_ends,
    comes,
    befalls,
    is_asked_to_end,  // a driver gets an event from outside
    heals,
    goes_on,
  };
  struct Event {
    TimePoint when;
    std::uint64_t number = 0;
    Kind kind{};
    std::uint32_t machine = 0;
    std::uint32_t local_rank = 0;  // for `comes`: 1 + the node that it replaces, or 0
    int attempt = 0;
    // If a worker ends: 's'uccess, 'f'ailure, 'v'ictim, 't'erminated, 'k'illed. If a driver gets an event: 'i'nterrupt,
    // 'c'onsole closed, 'g'uardian lost, 'h'ang.
    char how = 0;
    bool operator<(const Event& other) const { return std::pair(other.when, other.number) < std::pair(when, number); }
  };
  // Simulates one direction of a connection. Messages keep their order.
  struct Pipe {
    struct Parcel {
      TimePoint due;
      std::optional<wire::ControlMessage> message;  // the connection ends if empty
    };
    std::deque<Parcel> parcels;
    TimePoint last_due{};
    bool is_moving = false;  // there is an event for the first parcel
  };
  class Clock;
  class Workers;
  class Link;
  class ScriptedWatchdog;
  struct Alarm {
    TimePoint when;
    std::function<void()> due;
    std::uint64_t number = 0;
  };
  struct Exit {
    int local_rank;
    base::ExitStatus status;
  };
  struct Machine {
    Machine(Duration node_timeout, TimePoint now);
    ~Machine();
    wire::NodeHello hello;
    launcher::Agent agent;
    std::vector<bool> is_alive;      // per worker
    std::vector<bool> is_secondary;  // per worker: its error record names a secondary failure
    wire::CoordinatorBegins place;   // the node's place in the last attempt
    int attempt = -1;                // the attempt whose workers were started last
    bool has_workers = false;        // workers of an attempt run on the node
    std::vector<Exit> is_unheard;    // exits that the frozen launcher has not seen yet
    std::optional<Alarm> alarm;
    bool is_awake = false;  // the driver must work
    launcher::NodeId connection = 0;
    Pipe to_coordinator, from_coordinator;
    bool is_connected = false;              // the node's end is open
    bool is_coordinator_connected = false;  // the coordinator's end is open
    bool is_closed_by_coordinator = false;  // the coordinator neither sends nor receives there any more
    bool has_said_hello = false, has_heard = false;
    bool is_cut = false, is_frozen = false, is_dead = false;
    bool is_done = false;  // the node takes no further part

    // The following objects belong to the node's launcher.
    launcher::LaunchPlan plan;
    launcher::JobLink::Callbacks callbacks;
    launcher::ProcessHost::ExitCallback on_exit;
    std::unique_ptr<Clock> clock;
    std::unique_ptr<Workers> workers;
    std::unique_ptr<launcher::JobDriver> driver;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(std::max(limit, 1))); }
  bool one_in(int count) { return below(count) == 0; }
  Duration milliseconds_below(int limit) { return std::chrono::milliseconds(below(limit)); }
  Duration delay();
  launcher::CoordinatorOptions draw_options(int nodes);
  Duration trouble_time();
  void at(Duration delay, Event event);
  void carry_out(const Event& event);

  // The following functions simulate nodes and their faults.
  void comes(const Event& event);
  wire::NodeHello new_hello();
  void befalls();
  void strike(std::size_t id, int how);
  void dies(std::size_t id, bool is_seen);
  void freezes(std::size_t id);
  void is_cut(std::size_t id);
  void loses_connection(std::size_t id);
  void goes_on(std::size_t id);
  void coordinator_ends(bool is_seen);
  bool is_over() const;
  bool coordinator_hears() const { return !is_coordinator_gone_ && !machines_[0]->is_frozen; }

  // The following functions simulate connections.
  void push(std::size_t id, Pipe& pipe, std::optional<wire::ControlMessage> message);
  void move(std::size_t id, Pipe& pipe);
  void deliver(std::size_t id, Kind kind);
  void coordinator_closes(launcher::NodeId connection);
  void coordinator_closes_all();
  void coordinator_loses(std::size_t id);

  // The following functions drive the coordinator and the agents.
  void coordinator_acts(std::vector<launcher::CoordinatorAction> actions);
  void carry_out(const launcher::CoordinatorAction& action);
  void store_is_emptied();
  void agent_acts(std::size_t id, const std::vector<launcher::AgentAction>& actions);
  void says(std::size_t id, const wire::ControlMessage& message);

  // The following functions drive the launchers.
  void start_launcher(std::size_t id);
  void wake(std::size_t id);
  void let_drivers_work();
  void is_asked_to_end(std::size_t id, char what);
  void launcher_opens(std::size_t id);
  void launcher_leaves(std::size_t id);

  // The following functions simulate workers.
  void workers_begin(std::size_t id);
  bool worker_starts(std::size_t id, int local_rank);
  void worker_ends(const Event& event);
  void workers_have_ended(std::size_t id);
  void worker_is_signalled(std::size_t id, int local_rank, int signal);
  void lose_workers(std::size_t id);
  void is_done_with(std::size_t id);
  void lost_by_peers(std::size_t id, int attempt);

  std::mt19937_64 random_;
  launcher::CoordinatorOptions options_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t number_ = 0;
  std::priority_queue<Event> events_;
  NodesRules rules_;
  std::unique_ptr<launcher::Coordinator> coordinator_;
  std::deque<launcher::CoordinatorAction> coordinator_waiting_;
  bool is_coordinator_acting_ = false;
  bool is_coordinator_gone_ = false;
  bool is_through_ = false;
  TimePoint next_coordinator_tick_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::deque<std::size_t> awake_;
  std::size_t left_ = 0;                    // number of nodes that are done
  std::vector<std::size_t> machine_of_{0};  // node of each connection
  std::vector<Duration> run_times_;         // per attempt: the time until its workers end successfully
  int longest_run_ms_;
  int next_rank_ = 0;
  bool is_console_slow_ = false;
  bool expects_success_ = true;
  Counts counts_;
};

}  // namespace ddp::test

// NodesWorld: one life of a job on one node or on several, made from a seed: a coordinator, machines whose launcher is
// a JobDriver with an agent, fake workers and a fake watchdog, connections that take their time, stall and break, and
// what befalls all of them. Virtual time.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "launcher/job/coordinator.h"
#include "launcher/job/job_driver.h"
#include "launcher/job/node_agent.h"
#include "simulation/nodes_rules.h"

namespace ddp::test {

class NodesWorld {
 public:
  // A job of `nodes`, or a little fewer or more machines.
  NodesWorld(std::uint64_t seed, int nodes);
  ~NodesWorld();
  NodesWorld(const NodesWorld&) = delete;
  NodesWorld& operator=(const NodesWorld&) = delete;

  // Which rule was broken, and when; empty: none.
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
    alarm,           // of a driver
    driver_works,    // later than it could
    to_coordinator,  // the first of what is under way
    to_node,
    worker_ends,
    comes,
    befalls,
    is_told,  // a driver, of something from outside
    heals,
    goes_on,
  };
  struct Event {
    TimePoint when;
    std::uint64_t number = 0;
    Kind kind{};
    std::uint32_t machine = 0;
    std::uint32_t local_rank = 0;  // of `comes`: 1 + the machine in whose place it is, or 0
    int attempt = 0;
    // A worker ends: 's'uccess, 'f'ailure, 'v'ictim, 't'erminated, 'k'illed. A driver is told: 'i'nterrupt, 'c'onsole
    // closed, 'g'uardian lost, 'h'ang.
    char how = 0;
    bool operator<(const Event& other) const { return std::pair(other.when, other.number) < std::pair(when, number); }
  };
  // One direction of a connection. Nothing overtakes anything else.
  struct Pipe {
    struct Parcel {
      TimePoint due;
      std::optional<wire::ControlMessage> message;  // none: the end of the connection
    };
    std::deque<Parcel> parcels;
    TimePoint last_due{};
    bool is_moving = false;  // there is an event for the first parcel
  };
  class Clock;
  class Workers;
  class Link;
  class Looks;
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
    launcher::NodeAgent agent;
    std::vector<bool> is_alive;      // workers
    std::vector<bool> is_secondary;  // as its error record says
    wire::CoordinatorBegins place;   // of the last attempt
    int attempt = -1;                // whose workers were started last
    bool has_workers = false;        // an attempt runs here
    std::vector<Exit> is_unheard;    // of a frozen launcher
    std::optional<Alarm> alarm;
    bool is_awake = false;  // it is to work
    launcher::NodeId connection = 0;
    Pipe to_coordinator, from_coordinator;
    bool is_connected = false;              // its own end is open
    bool is_coordinator_connected = false;  // the coordinator's end
    bool is_closed_by_coordinator = false;  // it says and hears nothing more there
    bool has_said_hello = false, has_heard = false;
    bool is_cut = false, is_frozen = false, is_dead = false;
    bool is_done = false;  // nothing more is to be expected of it

    // The launcher.
    launcher::LaunchPlan plan;
    launcher::Nodes::Callbacks callbacks;
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

  // Machines and what befalls them.
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

  // Connections.
  void push(std::size_t id, Pipe& pipe, std::optional<wire::ControlMessage> message);
  void move(std::size_t id, Pipe& pipe);
  void deliver(std::size_t id, Kind kind);
  void coordinator_closes(launcher::NodeId connection);
  void coordinator_closes_all();
  void coordinator_loses(std::size_t id);

  // Coordinator and agents.
  void coordinator_acts(std::vector<launcher::CoordinatorAction> actions);
  void carry_out(const launcher::CoordinatorAction& action);
  void store_is_emptied();
  void agent_acts(std::size_t id, const std::vector<launcher::NodeAction>& actions);
  void says(std::size_t id, const wire::ControlMessage& message);

  // Launchers.
  void start_launcher(std::size_t id);
  void wake(std::size_t id);
  void let_drivers_work();
  void is_told(std::size_t id, char what);
  void launcher_opens(std::size_t id);
  void launcher_leaves(std::size_t id);

  // Workers.
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
  std::size_t left_ = 0;                    // machines that are done
  std::vector<std::size_t> machine_of_{0};  // by connection
  std::vector<Duration> run_times_;         // by attempt: until its workers end well
  int longest_run_ms_;
  int next_rank_ = 0;
  bool is_console_slow_ = false;
  bool expects_success_ = true;
  Counts counts_;
};

}  // namespace ddp::test

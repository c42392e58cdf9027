// NodesRules checks what must hold in every run of a job on several nodes, after every event. It sees the coordinator's
// actions and the events of workers, but not the reasons for them.
//
//    1 Workers of two attempts never run at the same time on nodes that the coordinator has not given up.
//    2 If a node receives nothing from the coordinator for node_timeout, its workers have ended soon after: within a
//      heartbeat and their time to end. For a frozen node that time starts when it continues. The coordinator's own
//      workers end together with it.
//    3 When the coordinator announces the end of the job, no node that it has not given up has workers.
//    4 All nodes that receive the end receive the same cause and exit code.
//    5 Nodes without trouble receive the end, unless they were refused or had been asked to end.
//    6 The ranks of an attempt are 0 to world size - 1 without gap or overlap. They are on at most as many nodes as the
//      job has, in the order of their node ranks, and the coordinator's node is the first.
//    7 The store is emptied once before each attempt, and there are at most as many restarts as allowed. After
//      the loss of a node they do not count.
//    8 A job succeeds only if all workers succeed. An attempt is ended only for an event in it. A secondary failure is
//      the cause only if there is no other cause and the time of wait_for_more() has passed.
//    9 After the coordinator has received a user's request to end, no other attempt begins.
//   10 A launcher that leaves ends, with the exit code of its cause. It ends no attempt before its workers have ended.
//   11 A launcher that is asked to end has ended some seconds after its workers' time to end, whatever the others do.
//      If a node falls silent meanwhile, the time in which it may be given up begins then.
//   12 Only a launcher that is asked twice, or has lost its guardian, ends before it knows that the job is over. The
//      coordinator's launcher waits until the others know, unless it is asked to end meanwhile.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/run/job/coordinator.h"

namespace ddp::test {

class NodesRules {
 public:
  using TimePoint = launcher::Coordinator::TimePoint;
  using Duration = TimePoint::duration;

  // `ending` is the time that workers may take to end. The owner advances `now`.
  NodesRules(const launcher::CoordinatorOptions& options, Duration ending, const TimePoint& now)
      : options_(options), ending_(ending), now_(now) {}

  // Nodes are numbered in the order of their appearance; 0 is the coordinator's own node.
  void appears(std::size_t machine, const wire::NodeHello& hello);
  void coordinator_takes_in(std::size_t machine);
  void coordinator_gives_up(std::size_t machine);
  // Takes all actions that one event has caused in the coordinator. `machine_of` maps a connection to a node.
  template <typename MachineOf>
  void coordinator_acts(const std::vector<launcher::CoordinatorAction>& actions, MachineOf&& machine_of) {
    begins_.clear();
    int emptied = 0;
    // The coordinator has given up a node if it closes the connection without a message about the end. That happens
    // before its other actions.
    for (const launcher::CoordinatorAction& action : actions) {
      const auto* send = std::get_if<launcher::SendToNode>(&action);
      if (send != nullptr && std::holds_alternative<wire::CoordinatorIsDone>(send->message))
        will_tell(machine_of(send->to));
      const auto* close = std::get_if<launcher::CloseNode>(&action);
      if (close != nullptr && !at(machine_of(close->who)).was_notified) coordinator_gives_up(machine_of(close->who));
    }
    for (const launcher::CoordinatorAction& action : actions) {
      if (std::holds_alternative<launcher::EmptyStore>(action)) ++emptied;
      const auto* send = std::get_if<launcher::SendToNode>(&action);
      if (send != nullptr) coordinator_says(machine_of(send->to), send->message);
    }
    if (!begins_.empty() || emptied > 0) check_beginning(emptied);
  }
  // The failure of a node has reached the coordinator.
  void coordinator_hears_failure(std::size_t machine, const wire::NodeFailed& failed);

  void hears(std::size_t machine) { at(machine).heard_at = now_; }
  // The node's launcher freezes. It may continue later.
  void freezes(std::size_t machine) { at(machine).is_frozen = true; }
  void goes_on(std::size_t machine) {
    at(machine).is_frozen = false;
    at(machine).heard_at = now_;
  }
  void workers_start(std::size_t machine, const wire::CoordinatorBegins& place);
  enum class End { success, failure, with_machine };
  void workers_end(std::size_t machine, End how);
  bool is_broken(int attempt) const { return attempt < static_cast<int>(broken_.size()) && broken_[attempt]; }
  void breaks(int attempt);
  void leaves(std::size_t machine, const wire::Cause& cause) { at(machine).left_with = cause; }
  void is_asked_to_leave(std::size_t machine) { at(machine).was_asked = true; }
  // The node's launcher is asked to end. With `may_leave_at_once` it need not wait for the coordinator's message.
  void is_asked_to_end(std::size_t machine, bool may_leave_at_once);
  void is_not_heard(std::size_t machine) {
    violate(11, "machine " + std::to_string(machine) + " shows output to whoever asks it to end");
  }
  // The launcher ends without the coordinator's message, or the coordinator's launcher ends before the others have
  // received the message.
  void leaves_at_once(std::size_t machine);
  bool left_with_success(std::size_t machine) { return at(machine).left_with && at(machine).left_with->exit_code == 0; }
  void launcher_ends(std::size_t machine, int exit_code);
  void has_left_workers(std::size_t machine);
  // The node was cut off, frozen, or otherwise disturbed for this time.
  void has_trouble(std::size_t machine, Duration time) {
    at(machine).trouble += time;
    last_trouble_at_ = now_;
  }
  // The node is frozen forever, or dead.
  void is_gone(std::size_t machine) {
    at(machine).is_gone = true;
    last_trouble_at_ = now_;
  }
  void coordinator_has_trouble(Duration time) { coordinator_trouble_ += time; }

  // Checks the state at the end. `expects_success` is true if nothing has gone wrong.
  void check_end(bool is_through, bool expects_success);

  const std::string& violation() const { return violation_; }

 private:
  struct Machine {
    int workers = 0;
    int number = wire::kAnyNodeRank;
    int takes_part_in = -1;  // number of an attempt
    bool is_known = false;   // the coordinator has accepted the node, and has not given it up
    bool was_taken_in = false;
    int runs = -1;  // attempt of the running workers; -1 if none run
    bool is_gone = false;
    bool is_frozen = false;
    bool was_asked = false;
    bool is_leaving = false;  // it was asked to end, and the job may go on without it
    bool is_in_haste = false;
    bool has_ended = false;  // the node's launcher has ended
    int times_asked = 0;
    TimePoint asked_at;  // time of the first request to end
    bool was_refused = false;
    bool was_notified = false;  // the coordinator has announced the end to the node
    TimePoint heard_at;
    Duration trouble{0};
    std::optional<wire::Cause> left_with;
  };

  Machine& at(std::size_t machine) { return machines_.at(machine); }
  void will_tell(std::size_t machine) { at(machine).was_notified = true; }
  void coordinator_says(std::size_t machine, const wire::ControlMessage& message);
  void check_beginning(int emptied);
  void sees_reason();
  void count(int attempt, int change);
  void check_end_of(std::size_t machine);
  void violate(int rule, const std::string& what);

  const launcher::CoordinatorOptions options_;
  const Duration ending_;
  const TimePoint& now_;
  std::vector<Machine> machines_;
  std::map<int, int> running_;  // attempt → number of known nodes that have workers
  std::vector<std::pair<std::size_t, wire::CoordinatorBegins>> begins_;
  int attempts_ = 0;  // number of attempts begun
  std::vector<bool> broken_;
  int culprit_reported_ = -1;  // the last attempt for which the coordinator has received a cause that is not secondary
  int reason_reported_ = -1;   // the last attempt for which the coordinator has received or seen any cause
  TimePoint reason_reported_at_;
  int ended_ = -1;        // the last attempt that the coordinator has ended
  std::set<int> failed_;  // attempts that ended for causes that count in --max-restarts
  std::optional<wire::Cause> fate_;
  Duration coordinator_trouble_{0};
  TimePoint last_trouble_at_;
  bool is_asked_to_end_ = false;
  std::string violation_;
};

}  // namespace ddp::test

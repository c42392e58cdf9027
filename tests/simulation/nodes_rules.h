// NodesRules: what must hold in every life of a job on several nodes, looked at after every event. It sees what the
// coordinator does and what happens to workers, and nothing of how they came to it.
//
//  1 Workers of two attempts never run at the same time among the machines that the coordinator has not given up.
//  2 A machine that hears nothing of the coordinator for node_timeout has no workers a heartbeat and their time to end
//  later; a
//    frozen one, that time after it goes on. The coordinator's own workers end with it.
//  3 When the coordinator says that the job is over, no machine that it has not given up has workers.
//  4 Whoever hears the end hears the same cause and exit code.
//  5 Machines without trouble either hear it, or were sent away, or had been asked to end.
//  6 The ranks of an attempt are 0 to the world's size without gap or overlap, of not more nodes than the job has, in
//    the order of their numbers; the coordinator's own come first.
//  7 The store is emptied once before each attempt, and there are not more attempts than restarts allow.
//  8 Success is success of all; an attempt is ended for something that has happened in it, and a secondary failure is
//  the cause
//    only where nobody else is and has been given the time of wait_for_more().
//  9 When the coordinator has heard that somebody asks for the end, no other attempt begins.
// 10 A launcher that leaves ends, and with the exit code of its cause. It ends no attempt before its workers have
// ended. 11 A launcher that is asked to end has ended some seconds after its workers' time to end, whatever the others
// do. 12 Only a launcher that is asked twice, or has lost its guardian, ends without having heard that the job is over.
// The
//    coordinator's waits until the others know, unless it is asked meanwhile.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/coordinator.h"

namespace ddp::test {

class NodesRules {
 public:
  using TimePoint = launcher::Coordinator::TimePoint;
  using Duration = TimePoint::duration;

  // `ending`: how long workers may take to end. `now` is moved by the owner.
  NodesRules(const launcher::CoordinatorOptions& options, Duration ending, const TimePoint& now)
      : options_(options), ending_(ending), now_(now) {}

  // Machines are numbered as they appear; 0 is the coordinator's own.
  void appears(std::size_t machine, const wire::NodeHello& hello);
  void coordinator_takes_in(std::size_t machine);
  void coordinator_gives_up(std::size_t machine);
  // All that one event made the coordinator do. `machine_of` maps connections.
  template <typename MachineOf>
  void coordinator_acts(const std::vector<launcher::CoordinatorAction>& actions, MachineOf&& machine_of) {
    begins_.clear();
    int emptied = 0;
    // Whom it closes without a word of the end it has given up before whatever follows from that.
    for (const launcher::CoordinatorAction& action : actions) {
      const auto* send = std::get_if<launcher::SendToNode>(&action);
      if (send != nullptr && std::holds_alternative<wire::CoordinatorIsDone>(send->message))
        will_tell(machine_of(send->to));
      const auto* close = std::get_if<launcher::CloseNode>(&action);
      if (close != nullptr && !at(machine_of(close->who)).was_told) coordinator_gives_up(machine_of(close->who));
    }
    for (const launcher::CoordinatorAction& action : actions) {
      if (std::holds_alternative<launcher::EmptyStore>(action)) ++emptied;
      const auto* send = std::get_if<launcher::SendToNode>(&action);
      if (send != nullptr) coordinator_says(machine_of(send->to), send->message);
    }
    if (!begins_.empty() || emptied > 0) look_at_beginning(emptied);
  }
  // That a machine's failure has reached the coordinator.
  void coordinator_hears_failure(std::size_t machine, const wire::NodeFailed& failed);

  void hears(std::size_t machine) { at(machine).heard_at = now_; }
  // Its launcher.
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
  // Its launcher is asked to end. `may_leave_at_once`: it need not wait for the coordinator's word.
  void is_told(std::size_t machine, bool may_leave_at_once);
  void is_not_heard(std::size_t machine) {
    violate(11, "machine " + std::to_string(machine) + " shows output to whoever asks it to end");
  }
  // Without the coordinator's word, or the coordinator's own before the others have heard it.
  void leaves_at_once(std::size_t machine);
  bool left_with_success(std::size_t machine) { return at(machine).left_with && at(machine).left_with->exit_code == 0; }
  void launcher_ends(std::size_t machine, int exit_code);
  void has_left_workers(std::size_t machine);
  // It was cut off, frozen, … for so long.
  void has_trouble(std::size_t machine, Duration time) { at(machine).trouble += time; }
  void is_gone(std::size_t machine) { at(machine).is_gone = true; }  // for ever frozen, or dead
  void coordinator_has_trouble(Duration time) { coordinator_trouble_ += time; }

  // When all is over. `expects_success`: nothing has gone wrong.
  void look_at_end(bool is_through, bool expects_success);

  const std::string& violation() const { return violation_; }

 private:
  struct Machine {
    int workers = 0;
    int number = wire::kAnyNodeRank;
    int takes_part_in = -1;  // an attempt
    bool is_known = false;   // the coordinator has taken it in, and not given it up
    bool was_taken_in = false;
    int runs = -1;  // the attempt
    bool is_gone = false;
    bool is_frozen = false;
    bool was_asked = false;
    bool is_in_haste = false;
    bool has_ended = false;  // its launcher
    int times_told = 0;
    TimePoint told_at;  // for the first time
    bool was_refused = false;
    bool was_told = false;  // the end
    TimePoint heard_at;
    Duration trouble{0};
    std::optional<wire::Cause> left_with;
  };

  Machine& at(std::size_t machine) { return machines_.at(machine); }
  void will_tell(std::size_t machine) { at(machine).was_told = true; }
  void coordinator_says(std::size_t machine, const wire::ControlMessage& message);
  void look_at_beginning(int emptied);
  void sees_reason();
  void count(int attempt, int change);
  void look_at_end_of(std::size_t machine);
  void violate(int rule, const std::string& what);

  const launcher::CoordinatorOptions options_;
  const Duration ending_;
  const TimePoint& now_;
  std::vector<Machine> machines_;
  std::map<int, int> running_;  // attempt → machines that are known and have workers
  std::vector<std::pair<std::size_t, wire::CoordinatorBegins>> begins_;
  int attempts_ = 0;  // begun
  std::vector<bool> broken_;
  int culprit_told_ = -1;  // the last attempt of which the coordinator has heard a cause that is no secondary failure
  int reason_told_ = -1;   // … has heard, or seen, any cause
  TimePoint reason_told_at_;
  int ended_ = -1;  // the last attempt that the coordinator has ended
  std::optional<wire::Cause> fate_;
  Duration coordinator_trouble_{0};
  bool is_asked_to_end_ = false;
  std::string violation_;
};

}  // namespace ddp::test

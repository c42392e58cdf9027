// PagesWorld simulates the ranks of a job from a seed, in virtual time, at the level of their status pages. Each thread
// of a rank runs a script of operations, and writes its page in the order in which the runtime writes it. A hang
// detector looks at the pages between any two writes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "simulation/pages_observer.h"

namespace ddp::test {

// One step of a thread: it writes once, or pauses, or waits. At most one of these is set.
struct PageStep {
  using Nanoseconds = std::chrono::nanoseconds;
  enum class Pause : std::uint8_t { sleep, compute, move };

  std::function<void()> write;
  Nanoseconds pause{0};
  Pause kind = Pause::sleep;
  // Waits until this returns an empty list. The list contains the ranks that have to act first.
  std::function<std::vector<int>()> awaits;
  Nanoseconds poll{0};        // if it is not zero, the thread asks again and again, with these pauses
  bool is_private = false;    // only another thread of the process can wake the thread
  bool is_own_doing = false;  // the thread waits for another thread of its rank
};

class PagesWorld {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  explicit PagesWorld(std::uint64_t seed);

  // Returns the rule that was broken, and when, or an empty string if none was.
  std::string live();

  struct Counts {
    std::uint64_t writes = 0, samples = 0, notes = 0, warnings = 0;
    Nanoseconds time{0};
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Thread {
    int rank = 0;
    bool is_runtime = false;  // a group's own thread
    bool has_called = false;  // it is counted as a thread that calls operations
    bool is_over = false;
    std::deque<PageStep> steps;
    std::optional<Nanoseconds> began;  // of the current pause
    int tid = 0;
  };
  struct Operation {
    std::uint64_t sequence = 0;
    bool is_rooted = false;  // a broadcast: only the root is needed, and the root needs no other rank
    int root = 0;
    Nanoseconds takes{0};
    std::uint64_t fingerprint = 0;
    std::set<int> begun;
    std::set<int> done;
    std::set<int> waits;  // ranks whose thread is shown as waiting for it
  };
  struct Group {
    std::uint64_t identity = 0;
    std::string name;
    std::vector<int> members;
    std::size_t layer = 0;
    std::uint64_t calls = 0;
    std::map<int, std::size_t> threads;  // the group's own thread of each member
    std::set<int> holds;                 // members that hold their calls back
    std::map<std::pair<int, int>, std::uint64_t> transfers;
  };
  using GroupPointer = std::shared_ptr<Group>;
  using OperationPointer = std::shared_ptr<Operation>;

  // Scripts (pages_script.cpp).
  void write_scripts();
  void write_script(std::size_t layer, int operations);
  void add_init();
  void add_operation(std::size_t layer);
  void add_collective(const GroupPointer& group);
  void add_batch(const GroupPointer& group);
  void add_transfer(const GroupPointer& group);
  void add_barrier(const GroupPointer& group);
  void add_new_group(std::size_t layer);
  void add_leave(const GroupPointer& group);
  // Parts of operations.
  OperationPointer make_operation(const GroupPointer& group);
  GroupPointer make_group(std::vector<int> members, std::string name, std::size_t layer);
  void add_call(int rank, const GroupPointer& group, const OperationPointer& operation, bool begins);
  void add_run(int rank, const GroupPointer& group, const OperationPointer& operation);
  void add_wait(int rank, const GroupPointer& group, const OperationPointer& operation);
  static std::vector<int> late_for(const Operation& operation, const Group& group);
  void wait_later(int rank, const GroupPointer& group, const OperationPointer& operation);
  void finish_waits(int rank, std::size_t layer);
  void add_transfer_side(const GroupPointer& group, int own, int peer, bool is_send, const OperationPointer& operation);
  void add_meeting(const std::vector<int>& members, std::size_t layer);
  void add_meeting_wait(int rank, std::size_t layer, std::function<std::vector<int>()> awaits);
  void enter_group(int rank, const GroupPointer& group);
  void enter_phase(int rank, std::size_t layer, launcher::RankPhase phase);
  void count_calling(int rank, std::size_t layer);
  void add_pause(int rank, std::size_t layer);
  void add_sign(int rank, std::size_t layer);
  void add_exit(int rank, bool destroys);
  Nanoseconds some_pause();

  Thread& thread(int rank, std::size_t layer) {
    return threads_[layer_threads_[layer][static_cast<std::size_t>(rank)]];
  }
  void write(int rank, std::size_t layer, std::function<void()> what) {
    thread(rank, layer).steps.push_back({.write = std::move(what)});
  }
  launcher::RankView& view(int rank) { return ranks_[static_cast<std::size_t>(rank)].view; }
  launcher::PageView& page(int rank) { return view(rank).page; }
  launcher::GroupView* group_on(int rank, const Group& group);
  std::vector<launcher::CallView>* calls_on(int rank, const Group& group);

  // The run of the scripts (pages_world.cpp).
  bool is_ready(const Thread& thread) const;
  bool take_step(Thread& thread);
  Nanoseconds wake_of(const Thread& thread) const;
  void note_awaited();
  void show_processes();
  void count_activity(Nanoseconds time);
  bool has_computing_thread(int rank) const;
  bool is_over() const;
  std::string describe_all() const;
  std::string check(const std::vector<launcher::HangNews>& news);
  std::string sample_between(int rank);

  std::uint64_t below(std::uint64_t most) { return most == 0 ? 0 : random_() % most; }
  bool chance(double share) { return std::uniform_real_distribution(0.0, 1.0)(random_) < share; }
  Nanoseconds between(Nanoseconds least, Nanoseconds most) {
    return least +
           Nanoseconds(static_cast<std::int64_t>(below(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }

  std::mt19937_64 random_;
  PagesPlan plan_;
  std::vector<PagesRank> ranks_;
  std::deque<Thread> threads_;
  std::vector<std::vector<std::size_t>> layer_threads_;
  std::vector<std::vector<GroupPointer>> groups_;  // by layer; those that exist at this point of the script
  std::map<std::pair<int, std::size_t>, std::vector<std::function<void()>>> later_;  // waits to be added to a script
  std::set<int> exited_;                                                             // ranks whose scripts have ended
  std::uint64_t next_identity_ = 100;
  std::vector<std::optional<Nanoseconds>> awaited_since_;
  std::vector<Nanoseconds> alive_at_;
  std::vector<Nanoseconds> progress_at_;
  std::vector<Nanoseconds> waits_since_;
  std::vector<std::pair<launcher::RankView, Nanoseconds>> before_;  // as they were some writes ago, and when
  Nanoseconds now_ = std::chrono::hours(1);
  std::unique_ptr<PagesObserver> observer_;
  Counts counts_;
};

}  // namespace ddp::test

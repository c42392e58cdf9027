#include "simulation/pages_world.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ddp::test {

using namespace launcher;
using namespace std::chrono_literals;
using Nanoseconds = std::chrono::nanoseconds;

namespace {

constexpr Nanoseconds kLongest = 3h;  // a simulated job never takes longer
constexpr Nanoseconds kNever = Nanoseconds::max();
constexpr Nanoseconds kMargin = 7s;  // the launcher counts signs of life in windows of 5 s

std::string text_of(const Verdict& verdict) {
  return std::string(code_of(verdict.kind)) + " in #" + std::to_string(verdict.sequence) + " of '" + verdict.group +
         (verdict.is_transfer ? "' (transfer)" : "'") + ", culprits: " + base::rank_list(verdict.culprits) +
         ", waiting: " + base::rank_list(verdict.waiting);
}

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

PagesWorld::PagesWorld(std::uint64_t seed) : random_(seed) {
  const auto ranks = static_cast<std::size_t>(2 + below(4));
  const Nanoseconds limit = std::chrono::seconds(20 + 20 * below(2));
  plan_.limit = limit;
  plan_.own_ranks = static_cast<int>(ranks);
  switch (below(4)) {
    case 0:  // a limit of the user's
      plan_.hang.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(limit);
      plan_.hang.still = 30min;
      break;
    case 1:
      plan_.hang.limit = HangLimit::learnt;
      plan_.limit = std::min<Nanoseconds>(limit, 30s);
      [[fallthrough]];
    default:
      plan_.hang.still = std::chrono::duration_cast<std::chrono::milliseconds>(limit);
  }
  if (ranks > 2 && chance(0.3)) {
    plan_.own_ranks = static_cast<int>(1 + below(ranks - 1));
    plan_.lag = chance(0.5) ? 200ms : 5s;
    plan_.others_judge = chance(0.3);
  }
  ranks_.resize(ranks);
  awaited_since_.resize(ranks);
  alive_at_.assign(ranks, now_);
  progress_at_.assign(ranks, now_);
  waits_since_.assign(ranks, now_);
  for (std::size_t i = 0; i < ranks; ++i) {
    PagesRank& rank = ranks_[i];
    rank.view.rank = static_cast<int>(i);
    rank.view.pid = 100 + static_cast<int>(i);
    rank.view.page.is_written = true;
    rank.view.page.writer = rank.view.pid;
    rank.activity.processes = {{rank.view.pid, 1, 0, 0, 0, 0, false}};
    rank.activity.connections = {{7, 4000, 5000, 0}};
    rank.activity.is_complete = true;
  }
  write_scripts();
  observer_ = std::make_unique<PagesObserver>(plan_, ranks, seed);
  before_.resize(ranks);
}

GroupView* PagesWorld::group_on(int rank, const Group& group) {
  auto& groups = page(rank).groups;
  const auto found = std::ranges::find(groups, group.identity, &GroupView::identity);
  return found == groups.end() ? nullptr : &*found;
}

std::vector<CallView>* PagesWorld::calls_on(int rank, const Group& group) {
  const GroupView* const found = group_on(rank, group);
  return found == nullptr ? nullptr : &view(rank).calls[static_cast<std::size_t>(found - page(rank).groups.data())];
}

bool PagesWorld::has_computing_thread(int rank) const {
  return std::ranges::any_of(threads_, [&](const Thread& thread) {
    if (thread.rank != rank || thread.steps.empty() || !thread.began) return false;
    const PageStep& step = thread.steps.front();
    return step.pause.count() > 0 && step.kind != PageStep::Pause::sleep;
  });
}

// Returns when the thread goes on. A rank for which others wait does not rest for as long as the limit. With a limit of
// the user's, a rank makes progress within that limit.
Nanoseconds PagesWorld::wake_of(const Thread& thread) const {
  const PageStep& step = thread.steps.front();
  if (!thread.began) return kNever;
  if (step.poll.count() > 0) return *thread.began + step.poll;
  const auto rank = static_cast<std::size_t>(thread.rank);
  const Nanoseconds within = plan_.limit - plan_.lag - kMargin;
  const Nanoseconds wake = *thread.began + step.pause;
  if (plan_.hang.timeout) return std::min(wake, progress_at_[rank] + within);
  if (!awaited_since_[rank] || has_computing_thread(thread.rank)) return wake;
  return std::min(wake, std::max(*awaited_since_[rank], alive_at_[rank]) + within);
}

bool PagesWorld::is_ready(const Thread& thread) const {
  if (thread.is_over || thread.steps.empty()) return false;
  const PageStep& step = thread.steps.front();
  if (step.write) return true;
  if (step.awaits && step.awaits().empty()) return true;
  return (step.pause.count() > 0 || step.poll.count() > 0) && now_ >= wake_of(thread);
}

// Does the next step of the thread. Returns whether it has written to its page.
bool PagesWorld::take_step(Thread& thread) {
  const PageStep step = thread.steps.front();
  const auto rank = static_cast<std::size_t>(thread.rank);
  thread.began.reset();
  if (step.poll.count() > 0 && !step.awaits().empty()) {
    page(thread.rank).polled_at = static_cast<std::uint64_t>(now_.count());
    thread.began = now_;
    return true;
  }
  thread.steps.pop_front();
  if (step.write) {
    const PageView before = page(thread.rank);
    step.write();
    const bool is_progress = before != page(thread.rank);
    if (is_progress) progress_at_[rank] = now_;
    // The end of a wait that the launcher can have seen is a sign of life.
    if (page(thread.rank).waiting_threads > before.waiting_threads) waits_since_[rank] = now_;
    const bool has_waited =
        page(thread.rank).waiting_threads < before.waiting_threads && now_ - waits_since_[rank] > 3s;
    if (is_progress || has_waited) alive_at_[rank] = now_;
  }
  if (thread.steps.empty() && !thread.is_runtime) {
    thread.is_over = true;
    if (thread.has_called) --page(thread.rank).calling_threads;
  }
  return bool(step.write);
}

void PagesWorld::note_awaited() {
  std::set<int> awaited;
  for (const Thread& thread : threads_) {
    if (thread.is_over || thread.steps.empty() || !thread.steps.front().awaits) continue;
    for (const int rank : thread.steps.front().awaits()) {
      if (!thread.steps.front().is_own_doing) awaited.insert(rank);
    }
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!awaited.contains(static_cast<int>(rank))) {
      awaited_since_[rank].reset();
    } else if (!awaited_since_[rank]) {
      awaited_since_[rank] = now_;
    }
  }
}

void PagesWorld::show_processes() {
  for (PagesRank& rank : ranks_) {
    if (rank.view.has_ended) {
      rank.view.process.reset();
      continue;
    }
    FreeThreads threads;
    for (const Thread& thread : threads_) {
      if (thread.rank != rank.view.rank || thread.is_runtime || thread.is_over) continue;
      if (thread.tid == rank.view.page.blocked_thread) continue;
      const PageStep* const step = thread.steps.empty() ? nullptr : &thread.steps.front();
      if (step == nullptr || step->is_private) continue;
      ++threads.free;
      if (!step->is_own_doing) ++threads.acting;
    }
    rank.view.process = ProcessSample{'S', 0, 0, "", threads};
  }
}

void PagesWorld::count_activity(Nanoseconds time) {
  for (const Thread& thread : threads_) {
    if (thread.is_over || thread.steps.empty() || !thread.began) continue;
    const PageStep& step = thread.steps.front();
    ActivitySample& activity = ranks_[static_cast<std::size_t>(thread.rank)].activity;
    const auto amount = static_cast<std::uint64_t>(time.count());
    if (step.kind == PageStep::Pause::compute) activity.processes[0].cpu_ticks += amount / 10'000'000 + 1;
    if (step.kind == PageStep::Pause::move) activity.connections[0].bytes += amount / 1000;
  }
}

std::string PagesWorld::check(const std::vector<HangNews>& news) {
  for (const HangNews& item : news) {
    counts_.notes += item.kind == HangNews::Kind::stalled;
    counts_.warnings += item.kind == HangNews::Kind::warned;
    if (item.kind != HangNews::Kind::hung || !item.ends_job) continue;
    return "the job is ended after " + std::to_string(seconds(now_ - 1h)) + " s: " + text_of(item.verdict) +
           ", because of " + item.judgement.why + ", age " + std::to_string(seconds(item.age)) + " s" + describe_all();
  }
  return "";
}

// Returns what all threads do, for a person who looks for the reason of a failure.
std::string PagesWorld::describe_all() const {
  std::string text = "\n  limit " + std::to_string(seconds(plan_.limit)) + (plan_.hang.timeout ? " by the user" : "") +
                     ", lag " + std::to_string(seconds(plan_.lag)) + ", own ranks " + std::to_string(plan_.own_ranks) +
                     (plan_.others_judge ? ", others judge" : "");
  for (const PagesRank& rank : ranks_) {
    const PageView& page = rank.view.page;
    const auto index = static_cast<std::size_t>(rank.view.rank);
    text +=
        "\n  rank " + std::to_string(rank.view.rank) + (rank.view.has_ended ? " ended" : "") + ": " +
        std::string(name_of(page.phase)) + ", calling " + std::to_string(page.calling_threads) + ", waiting " +
        std::to_string(page.waiting_threads) + ", blocked " + std::to_string(page.blocked_threads) +
        ", continuations " + std::to_string(page.continuations) +
        (page.polled_at != 0
             ? ", polled " + std::to_string(seconds(now_) - static_cast<double>(page.polled_at) / 1e9) + " s ago"
             : "") +
        ", alive " + std::to_string(seconds(now_ - alive_at_[index])) + " s ago, progress " +
        std::to_string(seconds(now_ - progress_at_[index])) + " s ago" +
        (awaited_since_[index] ? ", awaited for " + std::to_string(seconds(now_ - *awaited_since_[index])) + " s" : "");
    for (const GroupView& group : page.groups) {
      text += "\n    " + group.name + ": " + std::to_string(group.called) + "/" + std::to_string(group.started) + "/" +
              std::to_string(group.finished) + ", blocked " + std::to_string(group.blocked);
      for (const TransferView& one : group.transfers) {
        text += one.is_done ? ""
                            : std::string(one.is_send ? "; send " : "; recv ") + std::to_string(one.peer) + " #" +
                                  std::to_string(one.number) + (one.is_waited_for ? " waited for" : "");
      }
    }
    for (const Thread& thread : threads_) {
      if (thread.rank != rank.view.rank || thread.is_over || thread.steps.empty()) continue;
      const PageStep& step = thread.steps.front();
      text += std::string("\n    ") + (thread.is_runtime ? "runtime" : "thread");
      if (step.write) text += " writes";
      if (step.awaits) text += " awaits " + base::rank_list(step.awaits());
      if (step.poll.count() > 0) text += " and polls";
      if (step.pause.count() > 0) {
        text += step.kind == PageStep::Pause::sleep     ? " sleeps"
                : step.kind == PageStep::Pause::compute ? " computes"
                                                        : " moves";
        text += " since " + std::to_string(thread.began ? seconds(now_ - *thread.began) : 0.0) + " of " +
                std::to_string(seconds(step.pause));
      }
    }
  }
  return text;
}

// Looks at the pages between two writes. A page is not read in one moment, so its numbers of threads may be older than
// the state of its groups.
std::string PagesWorld::sample_between(int rank) {
  ++counts_.writes;
  show_processes();
  ++counts_.samples;
  if (std::string broken = check(observer_->would_say(ranks_, now_)); !broken.empty()) return broken;
  auto& [old, old_at] = before_[static_cast<std::size_t>(rank)];
  if (chance(0.2) && now_ - old_at < 500us) {
    std::vector<PagesRank> torn = ranks_;
    PageView& page = torn[static_cast<std::size_t>(rank)].view.page;
    for (const auto field : {&PageView::calling_threads, &PageView::waiting_threads, &PageView::blocked_threads,
                             &PageView::blocked_thread, &PageView::continuations, &PageView::awaited_world}) {
      page.*field = old.page.*field;
    }
    page.polled_at = old.page.polled_at;
    ++counts_.samples;
    if (std::string broken = check(observer_->would_say(torn, now_)); !broken.empty()) return "(torn) " + broken;
  }
  if (chance(0.3)) before_[static_cast<std::size_t>(rank)] = {view(rank), now_};
  return chance(0.3) ? check(observer_->sample(ranks_, now_)) : "";
}

bool PagesWorld::is_over() const {
  return std::ranges::all_of(threads_, [](const Thread& thread) { return thread.is_over || thread.is_runtime; });
}

std::string PagesWorld::live() {
  const Nanoseconds end = now_ + kLongest;
  std::vector<Thread*> ready;
  while (!is_over() && now_ < end) {
    ready.clear();
    for (Thread& thread : threads_) {
      const bool rests = !thread.steps.empty() && !thread.began &&
                         (thread.steps.front().pause.count() > 0 || thread.steps.front().poll.count() > 0);
      // A thread asks whether an operation is done before it rests.
      if (rests) thread.began = thread.steps.front().poll.count() > 0 ? now_ - thread.steps.front().poll : now_;
      if (is_ready(thread)) ready.push_back(&thread);
    }
    if (!ready.empty()) {
      Thread& thread = *ready[below(ready.size())];
      const int rank = thread.rank;
      if (!take_step(thread)) continue;
      now_ += chance(0.02) ? between(1ms, 60ms) : between(1us, 50us);
      if (std::string broken = sample_between(rank); !broken.empty()) return broken;
      continue;
    }
    note_awaited();
    Nanoseconds wake = kNever;
    for (const Thread& thread : threads_) {
      if (!thread.is_over && !thread.steps.empty() && thread.began) wake = std::min(wake, wake_of(thread));
    }
    if (wake == kNever) return "the simulated job is stuck";
    if (wake <= now_) continue;
    const Nanoseconds next = std::min(wake, observer_->next(now_));
    count_activity(next - now_);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (has_computing_thread(static_cast<int>(rank))) alive_at_[rank] = next;
    }
    now_ = next;
    show_processes();
    ++counts_.samples;
    if (std::string broken = check(observer_->sample(ranks_, now_)); !broken.empty()) return broken;
  }
  counts_.time += now_ - 1h;
  return "";
}

}  // namespace ddp::test

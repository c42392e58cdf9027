#include "launcher/run/watchdog/watchdog.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/ranks/activity_watch.h"
#include "launcher/run/ranks/gpu_check.h"
#include "launcher/run/ranks/hang_trace.h"
#include "launcher/run/ranks/record_collector.h"
#include "launcher/run/ranks/stack_watch.h"
#include "launcher/run/ranks/straggler_table.h"
#include "launcher/run/ranks/torch_watch.h"
#include "launcher/run/ranks/usage_watch.h"
#include "launcher/run/ranks/waits.h"
#include "launcher/run/watchdog/evidence/proof_beside.h"
#include "launcher/run/watchdog/evidence/ras_watch.h"
#include "launcher/run/watchdog/hang_evidence.h"
#include "launcher/start/doctor/between/check_decision.h"
#include "launcher/start/plan/used_gpu.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenReasons{30};  // between two logs of the same reason, with other numbers

// Returns CLOCK_MONOTONIC in nanoseconds, as on the pages.
std::uint64_t nanoseconds_of(Clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

class RankWatchdog : public Watchdog {
 public:
  RankWatchdog(const WatchdogParts& parts, const Placement& placement)
      : parts_(parts),
        placement_(placement),
        hangs_(parts.plan.hang, is_judged_elsewhere(), longest_interval()),
        trace_(parts.plan.hang.trace_file,
               [this](const std::string& why) {
                 parts_.log({LogLevel::warning, LogSource::hangs, why});
               }),
        gpus_(parts.loop, parts.plan.node_has_gpus),
        gpu_check_(parts.plan, placement.first_rank, parts.log, [] { return find_gpus("/"); }),
        torch_(parts.loop, parts.probe, placement.first_rank, parts.log),
        stacks_(parts.loop, parts.probe, placement),
        proof_(parts.loop),
        records_(parts.exchange, parts.probe, parts.sink, placement),
        activity_(
            parts.processes, gpus_, placement.first_rank, placement.master_port,
            [this](int local_rank) { return parts_.output.bytes_of(local_rank); },
            [this](int rank, const ActivitySample& sample, std::chrono::nanoseconds now) {
              trace_.sample(rank, sample, now);
            }),
        usage_(parts.processes, gpus_, placement.first_rank,
               [this](int local_rank) { return parts_.output.bytes_of(local_rank); }) {
    HangEvidenceParts of_hangs{parts.loop,
                               parts.probe,
                               parts.plan.workers,
                               placement.first_rank,
                               parts.plan.hang.action,
                               sees_others() ? &parts_.exchange : nullptr,
                               [this](const HangNews& news) { tell(news); },
                               [this] { return what_they_are_at(); },
                               [this] { activity_.discard_windows(); }};
    HangEvidenceParts of_stacks = of_hangs;
    of_stacks.tell = [this](const HangNews& news) {
      for (const auto& done : std::exchange(stack_requests_, {})) done(news);
    };
    evidence_.emplace(std::move(of_hangs));
    stack_evidence_.emplace(std::move(of_stacks));
  }
  ~RankWatchdog() override { leave_exchange(); }

  void started(int local_rank, const std::vector<std::string>& environment) override {
    started_.insert(local_rank);
    records_.started(local_rank);
    evidence_->set_environment(environment);
    ras_.set_environment(environment);
    const std::string torch_file = find_variable(environment, wire::env::kTorchFile).value_or("");
    torch_.watches(local_rank, torch_file);
    stacks_.watches(local_rank, torch_file);
    gpus_.sees(local_rank, find_variable(environment, wire::env::kCudaVisibleDevices));
  }

  void begin() override {
    parts_.exchange.on_asked = [this](wire::Subject what) { show(what); };
    parts_.exchange.on_evidence = [this] {
      evidence_->tell_if_complete();
      stack_evidence_->tell_if_complete();
    };
    parts_.exchange.on_proof = [this](const Shown& shown) {
      log_proof("node " + shown.host, doctor::read_findings(shown.text).value_or(doctor::Findings()));
    };
    if (!parts_.plan.hang.is_off() || parts_.sink != nullptr) sample_later();
  }

  void set_paused(bool is_paused) override { is_paused_ = is_paused; }
  void asked() override {
    stack_evidence_->end();
    evidence_->asked();
  }

  void take_stacks(std::function<void(const HangNews& news)> done) override {
    if (has_ended_) return done({});
    if (evidence_->is_taking()) return done(what_they_are_at());
    stack_requests_.push_back(std::move(done));
    stack_evidence_->asked(wire::Subject::stacks);
  }

  // A pending request of the user is answered now, because the ranks will not answer any more.
  void end() override {
    sample_timer_.reset();
    has_ended_ = true;
    torch_.end();
    proof_.end();
    stack_evidence_->end();
    evidence_->end();
  }

  WatchReport finish() override {
    leave_exchange();
    sample_timer_.reset();
    has_ended_ = true;
    proof_.end();
    if (stack_evidence_) stack_evidence_->end();
    stack_evidence_.reset();
    evidence_.reset();
    torch_.report_failure();
    WatchReport report{stragglers_.report()};
    const std::vector<RankView> ranks = sample_own(SampleDepth::pages);
    records_.finish();
    // The views see what the ranks have ended with.
    const auto ended = Clock::now();
    hangs_.pass(ended - sampled_at_, nanoseconds_of(ended));
    hangs_.add(with_others(ranks), SampleDepth::pages);
    if (parts_.sink != nullptr) parts_.sink->add(hangs_.picture());
    for (const RankView& rank : ranks) report.progress = std::max(report.progress, progress_of(rank.page));
    gpu_check_.finish(ranks);
    return report;
  }

  bool awaits_records() const override { return records_.awaits_last(); }

  std::optional<HangNews> decided() override { return evidence_->take_decided(); }

  std::optional<Verdict> unfinished(int local_rank, bool failed_too) override {
    RankView view;
    parts_.probe.sample(local_rank, SampleDepth::calls, view);
    auto verdict = find_unfinished(view, failed_too);
    // A collective for which no other rank waits need not be finished.
    if (verdict && !failed_too) verdict->waiting = waiting_in(*verdict);
    return verdict && (failed_too || !verdict->waiting.empty()) ? verdict : std::nullopt;
  }

  std::optional<Verdict> stall_of(int rank) override { return hangs_.stall_of(rank); }

  std::optional<Verdict> fatal_difference() override {
    return find_difference(with_others(sample_own(SampleDepth::calls)), /*a_rank_failed=*/true);
  }

  std::optional<HangNews> late_difference() override {
    const HangPlan& hang = parts_.plan.hang;
    if (!sees_others() || hang.is_off() || hang.action != HangAction::kill) return std::nullopt;
    HangNews news;
    news.ranks = with_others(sample_own(SampleDepth::calls));
    const auto verdict = find_difference(news.ranks);
    if (!verdict || verdict->is_open) return std::nullopt;
    news.verdict = *verdict;
    return news;
  }

  void show_calls() override {
    if (is_judged_elsewhere()) parts_.exchange.show_in_full(sample_own(SampleDepth::calls));
  }

 private:
  // The coordinator judges the ranks of all nodes, before other nodes judge their own.
  bool is_judged_elsewhere() const { return parts_.exchange.has_others() && !parts_.exchange.is_coordinator(); }
  bool sees_others() const { return parts_.exchange.has_others() && parts_.exchange.is_coordinator(); }

  // The coordinator samples less often if there are more ranks.
  Clock::duration time_between_samples() const {
    const auto share = sees_others() ? placement_.world_size * limits::kHangSampleShare : Clock::duration(0);
    return std::max<Clock::duration>(limits::kHangSampleInterval, share);
  }
  Clock::duration longest_interval() const {
    return std::max<Clock::duration>(limits::kHangLongestInterval, 2 * time_between_samples());
  }

  void leave_exchange() {
    parts_.exchange.on_asked = nullptr;
    parts_.exchange.on_evidence = nullptr;
    parts_.exchange.on_proof = nullptr;
  }

  void sample_later() {
    if (!has_ended_) sample_timer_ = parts_.loop.at(Clock::now() + time_between_samples(), [this] { sample(); });
  }

  // Samples all ranks and judges their state.
  void sample() {
    const auto begun = Clock::now();
    const auto elapsed = begun - std::exchange(sampled_at_, begun);
    torch_.poll(begun);
    stacks_.poll(begun);
    records_.poll(begun);
    if (!is_paused_) judge(elapsed);
    sample_later();
  }

  void judge(std::chrono::nanoseconds elapsed) {
    const std::uint64_t now = nanoseconds_of(Clock::now());
    hangs_.pass(elapsed, now);
    const NextSample next = hangs_.next();
    const bool others_are_new = sees_others() && parts_.exchange.take_news();
    const bool ours_are_new = sample_own(next.depth, ranks_);
    discard_windows_of_proof();
    if (next.measures_activity) activity_.measure(ranks_, Clock::now().time_since_epoch());
    gpu_check_.compare(ranks_);
    is_to_show_ = is_to_show_ || ours_are_new;
    show_ranks();
    if (sees_others() && (ours_are_new || others_are_new || difference_since_)) find_differences();
    // Most samples contain nothing new, and should cost nothing.
    const bool usage_is_new = take_usage(now);
    const bool ras_is_new = !is_judged_elsewhere() && ras_.poll(Clock::now(), ranks_);
    if (!ours_are_new && !others_are_new && !usage_is_new && !ras_is_new) return see_picture();
    // Asks other nodes for more than their pages show. The next sample uses the answers.
    if (sees_others() && next.depth == SampleDepth::all) parts_.exchange.ask_for_ranks();
    std::vector<RankView> all = with_others(ranks_);
    ras_.add_to(all);
    const std::vector<HangNews> all_news = hangs_.add(std::move(all), next.depth);
    see_picture();
    explain();
    for (const HangNews& news : all_news) {
      stack_evidence_->end();  // other nodes answer one question at a time
      evidence_->consider(news);
    }
  }

  // Shows the picture to all that follow the ranks.
  void see_picture() {
    const Picture& picture = hangs_.picture();
    stragglers_.add(picture);
    trace_.add(picture);
    if (parts_.sink != nullptr) parts_.sink->add(picture);
  }

  // Says why there is a verdict or none. The log gets a reason when it is new, and now and then while it lasts.
  void explain() {
    if (hangs_.picture().depth != SampleDepth::all) return;
    trace_.explain(hangs_.explanation());
    std::string reason = hangs_.explanation();
    std::erase_if(reason, [](char letter) { return letter >= '0' && letter <= '9'; });
    if (reason == explained_ && Clock::now() < explain_again_) return;
    explained_ = std::move(reason);
    explain_again_ = Clock::now() + kBetweenReasons;
    parts_.log({LogLevel::debug, LogSource::hangs, hangs_.explanation()});
  }

  // Measures what the ranks use, and asks the other nodes for the same, if a view wants it. Returns whether there is
  // anything new.
  bool take_usage(std::uint64_t now) {
    if (parts_.sink == nullptr || !parts_.sink->wants_processes()) return false;
    if (sees_others() && Clock::now() >= next_usage_) {
      next_usage_ = Clock::now() + limits::kUsageAsked;
      parts_.exchange.ask_for_usage();
    }
    const bool others_are_new = sees_others() && parts_.exchange.take_usage_news();
    return usage_.measure(ranks_, now) || others_are_new;
  }

  // On a node other than the coordinator, shows the changes of this node's ranks to the coordinator.
  void show_ranks() {
    if (!is_to_show_ || !parts_.exchange.may_show(Clock::now())) return;
    is_to_show_ = false;
    parts_.exchange.show(sample_own(SampleDepth::calls), Clock::now());
  }
  void show(wire::Subject what) {
    if (what == wire::Subject::ranks) parts_.exchange.show_in_full(measure_own());
    if (what == wire::Subject::usage) {
      std::vector<RankView> ranks = sample_own(SampleDepth::pages);
      usage_.measure(ranks, nanoseconds_of(Clock::now()));
      parts_.exchange.show_usage(ranks);
    }
    if (what == wire::Subject::proof)
      prove([this](const doctor::Findings& findings) { parts_.exchange.show_proof(doctor::json_text(findings)); });
    if (what == wire::Subject::no_proof) proof_.end();
    if (!HangEvidence::is_evidence(what)) return;
    evidence_->take_own(what, [this, what](const Evidence& evidence) { parts_.exchange.show(evidence, what); });
  }

  // Reports the news. If ranks hang in a collective that all have called, proves on all nodes whether the GPUs can
  // write to each other, unless the workers end now: then a check follows that needs no room beside them.
  void tell(const HangNews& news) {
    parts_.news(news);
    if (news.kind == HangNews::Kind::goes_on) {
      proof_.end();
      if (sees_others()) parts_.exchange.end_proof();
    }
    const bool hangs_on = news.kind == HangNews::Kind::warned || (news.kind == HangNews::Kind::hung && !news.ends_job);
    const bool is_wanted = hangs_on && all_wait(news.verdict.kind) && parts_.plan.hang.action != HangAction::warn;
    if (!is_wanted || is_judged_elsewhere()) return;
    if (sees_others()) parts_.exchange.ask_for_proof();
    const std::string where = sees_others() ? "node " + parts_.plan.host_name : "this node";
    prove([this, where](const doctor::Findings& findings) { log_proof(where, findings); });
  }

  // Does nothing if this node has proved it already, or has no pair of GPUs.
  void prove(ProofBeside::Done done) {
    if (has_ended_ || !has_pair_of_gpus(parts_.plan) || !ranks_use_gpus()) return;
    const char* const text = "proving whether the GPUs of this node can write to each other, beside the workers";
    if (!proof_.is_running()) parts_.log({LogLevel::debug, LogSource::hangs, text});
    proof_.start(parts_.plan, std::move(done));
  }
  bool ranks_use_gpus() const {
    return std::ranges::any_of(ranks_, [&](const RankView& rank) {
      return uses_gpu(rank) || !rank.page.gpu_uuid.empty() ||
             use_gpus(parts_.processes.processes_of(rank.rank - placement_.first_rank), "/proc");
    });
  }
  // What the proof transfers is no sign of life of the ranks. The GPUs' counters are some seconds old.
  void discard_windows_of_proof() {
    constexpr std::chrono::seconds kAfter{6};
    if (proof_.is_running()) discards_until_ = Clock::now() + kAfter;
    if (Clock::now() < discards_until_) activity_.discard_windows();
  }
  void log_proof(const std::string& where, const doctor::Findings& findings) {
    for (const LogLine& line : doctor::explain_proof(where, findings)) parts_.log(line);
  }

  // Ranks of different nodes do not compare their calls themselves. The digests of the nodes are enough to detect a
  // difference. Then the coordinator asks the nodes for the calls.
  void find_differences() {
    if (reported_difference_ || parts_.plan.hang.is_off()) return;
    const auto verdict = find_difference(with_others(sample_own(SampleDepth::calls)));
    if (!verdict) return difference_since_.reset();
    if (!std::exchange(asked_of_difference_, true)) parts_.exchange.ask_for_ranks();
    if (!difference_since_) difference_since_ = Clock::now();
    const auto passed = Clock::now() - *difference_since_;
    if (!verdict->is_described() && passed < limits::kShownEvidenceTime) return;
    if (verdict->is_open && passed < limits::kSettleTime) return;
    reported_difference_ = true;
    HangNews news = hangs_.describe(with_others(sample_own(SampleDepth::all)));
    news.kind = HangNews::Kind::hung;
    news.verdict = *verdict;
    news.judgement.hang_class = HangClass::certain;
    news.judgement.why = "the calls of the ranks do not match";
    news.ends_job = parts_.plan.hang.action == HangAction::kill;
    parts_.news(news);
  }

  // Samples the ranks that were started in this attempt. Returns false if nothing in them is new.
  bool sample_own(SampleDepth depth, std::vector<RankView>& ranks) {
    bool is_new = depth != SampleDepth::pages;
    ranks.resize(static_cast<std::size_t>(parts_.plan.workers));
    for (int i = 0; i < parts_.plan.workers; ++i) {
      RankView& view = ranks[static_cast<std::size_t>(i)];
      if (!started_.contains(i)) continue;
      is_new = parts_.probe.sample(i, depth, view) || is_new;
      is_new = stacks_.add_to(i, depth, view) || is_new;
    }
    std::erase_if(ranks, [](const RankView& view) { return view.pid == 0; });
    return is_new;
  }
  std::vector<RankView> sample_own(SampleDepth depth) {
    std::vector<RankView> ranks;
    sample_own(depth, ranks);
    return ranks;
  }
  std::vector<RankView> measure_own() {
    std::vector<RankView> ranks = sample_own(SampleDepth::all);
    activity_.measure(ranks, Clock::now().time_since_epoch());
    return ranks;
  }
  // At the coordinator, adds the ranks of other nodes as they were last shown.
  std::vector<RankView> with_others(std::vector<RankView> ranks) const {
    if (!sees_others()) return ranks;
    for (const auto& [rank, view] : parts_.exchange.far()) ranks.push_back(view);
    return ranks;
  }

  // Returns the ranks that wait for this collective, as far as this node sees them.
  std::vector<int> waiting_in(const Verdict& verdict) {
    std::vector<int> waiting;
    for (const RankView& rank : with_others(sample_own(SampleDepth::pages))) {
      const bool is_in =
          std::ranges::any_of(rank.page.groups, [&](const GroupView& group) { return verdict.is_under_way_in(group); });
      if (is_in && !rank.has_ended && !verdict.blames(rank.rank) && may_wait(rank)) waiting.push_back(rank.rank);
    }
    return waiting;
  }

  HangNews what_they_are_at() {
    std::vector<RankView> all = with_others(measure_own());
    ras_.add_to(all);
    HangNews news = hangs_.describe(std::move(all));
    news.stragglers = stragglers_.report();
    return news;
  }

  const WatchdogParts parts_;
  const Placement placement_;
  HangDetector hangs_;
  HangTrace trace_;
  GpuWatch gpus_;
  GpuCheck gpu_check_;
  TorchWatch torch_;
  RasWatch ras_;
  StackWatch stacks_;
  ProofBeside proof_;
  RecordCollector records_;
  ActivityWatch activity_;
  UsageWatch usage_;
  std::optional<HangEvidence> evidence_;        // destroyed by finish()
  std::optional<HangEvidence> stack_evidence_;  // takes the stacks for take_stacks()
  std::vector<std::function<void(const HangNews& news)>> stack_requests_;
  StragglerTable stragglers_;
  std::set<int> started_;        // local ranks of the started workers
  std::vector<RankView> ranks_;  // this node's ranks at the last sample
  Clock::time_point discards_until_;
  bool is_paused_ = false;
  bool has_ended_ = false;
  bool is_to_show_ = true;
  std::string explained_;  // the reason that was logged last, without its numbers
  Clock::time_point explain_again_;
  std::optional<Clock::time_point> difference_since_;
  bool asked_of_difference_ = false;
  bool reported_difference_ = false;
  Clock::time_point sampled_at_ = Clock::now();
  Clock::time_point next_usage_;
  std::unique_ptr<net::Watch> sample_timer_;
};

}  // namespace

std::unique_ptr<Watchdog> make_watchdog(const WatchdogParts& parts, const Placement& placement) {
  return std::make_unique<RankWatchdog>(parts, placement);
}

}  // namespace ddp::launcher

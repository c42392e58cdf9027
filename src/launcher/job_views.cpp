#include "launcher/job_views.h"

#include <ddp/version.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process_stat.h"
#include "base/secrets.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/see/report/job_json.h"
#include "launcher/see/top/top_command.h"
#include "launcher/see/view/progress_line.h"
#include "launcher/see/view/top_frame.h"
#include "launcher/see/view/training_curves.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher {
namespace {

constexpr auto kBetweenLines = std::chrono::milliseconds(500);  // between two updates of the lines below the output
constexpr int kLeastOutputRows = 8;                             // rows of the terminal that --live leaves to the output

std::uint64_t monotonic_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

// Returns whether another job of the shell has the terminal. The supervisor has no terminal of its own, but its parent,
// which the user has started, does.
bool is_in_background() {
  const auto stat = base::read_process_stat(::getppid());
  return stat && stat->foreground >= 0 && stat->group != stat->foreground;
}

// Returns the program and its arguments as typed, without an interpreter and without secrets.
std::string command_of(const LaunchPlan& plan) {
  std::vector<std::string> words = base::without_secrets(plan.arguments);
  const auto program = std::ranges::find(plan.arguments, plan.what);
  if (program == plan.arguments.end()) return plan.what;
  words.erase(words.begin(), words.begin() + (program - plan.arguments.begin()));
  std::ranges::transform(words, words.begin(), base::shell_quoted);
  return base::join(words, " ");
}

// Returns what stays the same for the whole job.
JobSnapshot job_of(const LaunchPlan& plan) {
  return {.version = DDP_VERSION_STRING,
          .run_id = plan.run_id,
          .program = command_of(plan),
          .node = plan.host_name,
          .launcher_pid = ::getppid(),
          .max_restarts = plan.max_restarts};
}

std::map<int, std::string> gpus_of(const LaunchPlan& plan, const Placement& placement) {
  std::map<int, std::string> gpus;
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    if (plan.devices[i]) gpus[placement.first_rank + static_cast<int>(i)] = *plan.devices[i];
  }
  return gpus;
}

// Returns the nodes of the ranks, which are in the order of their numbers.
std::vector<NodeRow> nodes_of(std::span<const RankRow> ranks) {
  std::vector<NodeRow> nodes;
  for (const RankRow& rank : ranks) {
    if (nodes.empty() || nodes.back().name != rank.node) nodes.push_back({rank.node, rank.rank, 0});
    ++nodes.back().workers;
  }
  return nodes;
}

}  // namespace

JobViews::JobViews(JobViewsParts parts)
    : parts_(std::move(parts)),
      builder_(job_of(parts_.plan), monotonic_now()),
      followers_(parts_.loop, parts_.output) {}

JobViews::~JobViews() = default;

void JobViews::begin() {
  auto socket = listen_in(socket_folders(parts_.plan.inherited_environment), ::getppid());
  if (socket) {
    server_ = std::make_unique<ViewServer>(
        parts_.loop, std::move(socket).value(),
        ViewServer::Job{[this] { return snapshot(); },
                        [this](int rank, const ViewServer::Reply& reply) { take_stacks(rank, reply); },
                        [this](int rank, ViewServer::Sink sink) { return follow(rank, std::move(sink)); }});
  } else {
    const bool is_chosen = !find_variable(parts_.plan.inherited_environment, "DDP_SOCKET_DIR").value_or("").empty();
    parts_.log({is_chosen ? LogLevel::warning : LogLevel::debug, LogSource::launcher,
                "ddplaunch top cannot see this job: " + socket.error().message});
  }
  const bool moves_cursor = find_variable(parts_.plan.inherited_environment, "TERM").value_or("") != "dumb";
  if (parts_.output.footer_size() && moves_cursor) {
    show_lines_later();
  } else if (parts_.plan.live && !parts_.plan.nodes.several()) {  // of several nodes, few have a terminal
    parts_.log({LogLevel::note, LogSource::launcher,
                "--live shows no ranks, because the output is no terminal whose cursor can be moved. Use ddplaunch top "
                "at another terminal."});
  }
}

JobObserver JobViews::before(JobObserver next) {
  JobObserver both = next;
  both.attempt_begins = [this, next](const Placement& placement) {
    if (trace_) trace_->attempt_begins(placement);
    next.attempt_begins(placement);
  };
  both.event = [this, next](const Event& event) {
    see(event);
    next.event(event);
  };
  both.attempt_ended = [this, next](const JobOutcome& outcome, const std::string& what_follows, bool is_last) {
    if (trace_) trace_->attempt_ended(outcome, what_follows);
    if (is_last) parts_.output.set_footer({});
    next.attempt_ended(outcome, what_follows, is_last);
  };
  return both;
}

void JobViews::begin_watch(const Placement& placement, bool is_coordinator) {
  placement_ = placement;
  const LaunchPlan& plan = parts_.plan;
  const bool has_all_ranks = is_coordinator || placement.node_count == 1;
  builder_.begin_attempt(placement, gpus_of(plan, placement), has_all_ranks, monotonic_now());
  if (has_history()) history_.begin_attempt(placement, node_name(plan.host_name, placement), monotonic_now());
  if (!plan.trace_file.empty() && has_all_ranks && !trace_) {
    trace_.emplace(plan, iso_time(std::chrono::system_clock::now()), [this](const std::string& why) {
      parts_.log({LogLevel::warning, LogSource::launcher, why});
    });
    trace_->attempt_begins(placement);
  }
}

AttemptHistory JobViews::history() {
  return history_.end_attempt(monotonic_now());
}

void JobViews::end() {
  timer_.reset();
  parts_.output.set_footer({});
  driver_ = nullptr;
  server_.reset();
  if (trace_) trace_->close();
}

void JobViews::see(const Event& event) {
  if (trace_) trace_->event(event);
  if (const auto* news = std::get_if<HangNews>(&event)) builder_.add(*news, monotonic_now());
}

void JobViews::add(const Picture& picture) {
  const TrainingMoment training = training_of(picture.ranks, reported_values());
  builder_.add(picture);
  builder_.add(training, picture.taken_at);
  if (has_history()) history_.add(picture);
  if (has_history()) history_.add(training, picture.taken_at);
  if (trace_) trace_->add(picture);
  if (trace_) trace_->add(training, picture.taken_at);
}

// Returns the values of the lowest rank of this node that reports any.
std::vector<ProgressValue> JobViews::reported_values() const {
  for (int i = 0; i < parts_.plan.workers; ++i) {
    auto values = parts_.probe.progress_values(i);
    if (!values.empty()) return values;
  }
  return {};
}

void JobViews::add_records(const RankRecords& records) {
  builder_.add_records(records);
  if (has_history()) history_.add_records(records);
  if (trace_) trace_->add_records(records);
}

bool JobViews::wants_processes() const {
  const bool has_document = !parts_.plan.report_file.empty() || trace_;
  return has_clients() || has_document || (parts_.plan.live && timer_ != nullptr);
}

bool JobViews::wants_records() const {
  if (parts_.plan.recording == Recording::off) return false;
  return has_history() || wants_processes();
}

JobSnapshot JobViews::snapshot() {
  JobSnapshot shot = builder_.snapshot(monotonic_now());
  const std::string own = node_name(parts_.plan.host_name, placement_);
  for (RankRow& rank : shot.ranks) {
    if (rank.node.empty()) rank.node = own;
  }
  shot.node = own;
  if (parts_.preloader != nullptr) shot.preloader_pid = parts_.preloader->pid();
  shot.nodes = nodes_of(shot.ranks);
  if (driver_ != nullptr) {
    for (const std::string& spare : driver_->spares()) shot.nodes.push_back({spare, 0, 0});
  }
  return shot;
}

void JobViews::take_stacks(int rank, const ViewServer::Reply& reply) {
  if (driver_ == nullptr) return reply({"the job takes no stacks now"});
  driver_->take_stacks([rank, reply](const HangNews& news) {
    const auto& all = news.evidence.stacks;
    const auto found = std::ranges::find(all, rank, &RankStacks::rank);
    if (found != all.end()) return reply(stack_lines(*found));
    reply({"there are no stacks of rank " + std::to_string(rank) + ": it does not run, or its node has not answered"});
  });
}

std::unique_ptr<net::Watch> JobViews::follow(int rank, ViewServer::Sink sink) {
  const int local_rank = rank - placement_.first_rank;
  if (local_rank < 0 || local_rank >= parts_.plan.workers) return nullptr;
  return followers_.follow(local_rank, std::move(sink));
}

void JobViews::show_lines_later() {
  timer_ = parts_.loop.at(std::chrono::steady_clock::now() + kBetweenLines, [this] { show_lines(); });
}

void JobViews::show_lines() {
  show_lines_later();
  const auto size = parts_.output.footer_size();
  if (size) parts_.output.set_footer(is_in_background() ? std::vector<std::string>() : lines(*size));
}

std::vector<std::string> JobViews::lines(TerminalSize size) {
  const LaunchPlan& plan = parts_.plan;
  if (plan.live) {
    const FrameSize most{static_cast<int>(size.columns), std::max(static_cast<int>(size.rows) - kLeastOutputRows, 0)};
    const FrameStyle style{plan.log.color, style_of_terminal({}, plan.inherited_environment, true).has_unicode};
    return job_lines(snapshot(), TopView(), most, style);
  }
  const bool is_quiet = plan.log.level > LogLevel::info;
  if (!plan.progress_line.value_or(builder_.reports_progress() && !is_quiet)) return {};
  const std::string line = progress_line(snapshot(), size.columns);
  return line.empty() ? std::vector<std::string>() : std::vector{line};
}

}  // namespace ddp::launcher

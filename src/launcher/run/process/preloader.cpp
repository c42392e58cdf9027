#include "launcher/run/process/preloader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "base/uninterrupted.h"
#include "launcher/limits.h"
#include "launcher/run/process/process_texts.h"
#include "launcher/run/process/tool_run.h"
#include "launcher/run/process/worker_spec.h"
#include "launcher/start/plan/preload_plan.h"
#include "net/event_loop_asio.h"
#include "wire/record_ring_layout.h"
#include "wire/state_memory_layout.h"
#include "wire/status_page_layout.h"
#include "wire/worker_env.h"

namespace ddp::launcher {

namespace {

std::string name_of(const std::string& line) {
  return line.substr(0, line.find('='));
}

// A specification of a worker, none of whose ranks, places and files is that of another one with another `which`.
WorkerSpec example(const LaunchPlan& plan, int which) {
  const std::string text = "example" + std::to_string(which);
  Placement placement;
  placement.attempt = which;
  placement.node_rank = which;
  placement.node_count = which + 1;
  placement.first_rank = which * plan.workers;
  placement.world_size = placement.node_count * plan.workers;
  placement.master_addr = text;
  placement.master_port = static_cast<std::uint16_t>(which);
  placement.interface = text;
  placement.may_restart = which == 1;
  placement.restore.step = which;
  placement.restore.ranks.resize(static_cast<std::size_t>(plan.workers));
  return make_worker_spec(plan, placement, {which == 1 ? 0 : plan.workers - 1, text, text, text});
}

constexpr std::size_t kAnswerBytes = 4096;
constexpr std::string_view kReady = "ready ";  // of the preloader and of a worker, each with its pid

struct Pair {
  base::UniqueFd own;
  base::UniqueFd other;
};

Pair make_sockets() {
  std::array<int, 2> ends{-1, -1};
  ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data());
  return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

// Returns the next message, or nothing if the other end is closed or `until` has come.
std::string receive(int socket, std::chrono::steady_clock::time_point until) {
  std::string text(kAnswerBytes, '\0');
  const ssize_t size =
      base::poll_until(socket, POLLIN, until) > 0 ? ::recv(socket, text.data(), text.size(), MSG_DONTWAIT) : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

bool send_with_descriptors(int socket, std::string_view text, const std::vector<int>& descriptors) {
  iovec part{const_cast<char*>(text.data()), text.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast): sendmsg's
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

// Appends a name with a list of texts, as ddp_preload.py reads it.
void add(std::string& request, const std::string& name, const std::vector<std::string>& texts) {
  const auto append = [&](const std::string& word) { request.append(word.c_str(), word.size() + 1); };
  append(name);
  append(std::to_string(texts.size()));
  for (const std::string& text : texts) append(text);
}

std::vector<std::string> texts_of(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

std::vector<std::string> texts_of(const rlimit& limit) {
  const auto text = [](rlim_t value) { return value == RLIM_INFINITY ? "-1" : std::to_string(value); };
  return {text(limit.rlim_cur), text(limit.rlim_max)};
}

// Holds descriptors that a worker gets, and what each is for.
struct Kept {
  std::vector<std::string> names;
  std::vector<int> descriptors;
};

Kept kept_descriptors(const WorkerSpec& spec, const WorkerDescriptors& descriptors) {
  Kept kept;
  const auto keep = [&](const std::string& name, int descriptor) {
    if (descriptor < 0) return;
    kept.names.push_back(name);
    kept.descriptors.push_back(descriptor);
  };
  keep("in", descriptors.in);
  keep("out", descriptors.out);
  keep("err", descriptors.err);
  keep("cgroup", descriptors.cgroup_procs);
  const rlim_t most = limits_of(spec).descriptors.rlim_cur;
  for (const auto& [descriptor, number] :
       {std::pair(descriptors.page, wire::kPageDescriptor), std::pair(descriptors.ring, wire::kRingDescriptor),
        std::pair(descriptors.states, wire::kStateDescriptor)}) {
    if (most > static_cast<rlim_t>(number)) keep(std::to_string(number), descriptor);
  }
  return kept;
}

std::string oom_score_of_worker() {
  int own = 0;
  std::ifstream("/proc/self/oom_score_adj") >> own;
  return std::to_string(std::min(1000, own + limits::kOomScoreRaise));
}

std::string request_for(const WorkerSpec& spec, const std::vector<std::string>& descriptors) {
  const WorkerLimits limits = limits_of(spec);
  std::string request;
  add(request, "descriptors", descriptors);
  add(request, "environment", spec.environment);
  add(request, "cpus", texts_of(spec.cpus));
  add(request, "memory_nodes", texts_of(spec.memory_nodes));
  add(request, "ignored_signals", texts_of(spec.ignored_signals));
  add(request, "NOFILE", texts_of(limits.descriptors));
  add(request, "CORE", texts_of(limits.core));
  add(request, "oom_score", {oom_score_of_worker()});
  return request;
}

// Opens the process if it is a child of this one.
base::UniqueFd open_child(std::string_view pid) {
  const auto number = base::parse_integer(pid, 1, 1 << 30);
  if (!number) return {};
  base::UniqueFd file(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(*number), 0)));
  siginfo_t info{};
  constexpr auto kPidfd = static_cast<idtype_t>(3);  // P_PIDFD, which glibc has since 2.36
  const bool is_child =
      file && ::waitid(kPidfd, static_cast<id_t>(file.get()), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  return is_child ? std::move(file) : base::UniqueFd();
}

}  // namespace

Preloader::Preloader(net::EventLoop& loop, const PreloadSpec& spec, PreloaderCallbacks callbacks)
    : loop_(loop), spec_(spec), callbacks_(std::move(callbacks)), begun_at_(std::chrono::steady_clock::now()) {
  if (spec.refused.empty()) {
    start(spec.probe, "");
  } else {
    give_up(spec.refused);
  }
  if (state_ != State::over) check();
}

void Preloader::start(const std::vector<std::string>& command, const std::string& modules) {
  Pair sockets = make_sockets();
  std::vector<std::string> environment = spec_.environment;
  environment.push_back(wire::env::kPreload + ("=" + modules));
  auto process =
      Helper::start(loop_, {.command = command, .input = sockets.other.get(), .environment = std::move(environment)},
                    {.read = [this](std::size_t /*stream*/, std::string_view bytes) { read(bytes); },
                     .may_read = nullptr,
                     .ended = [this](const base::ExitStatus& status) { ended(status); }});
  if (!process) return give_up(process.error().message);
  process_ = std::move(process).value();
  control_ = std::move(sockets.own);
}

// A program that does not run ddplaunch's code must not be started: it would be one worker too many.
void Preloader::ended(const base::ExitStatus& status) {
  if (state_ != State::asking) return give_up(preloader_ended_text(status));
  if (receive(control_.get(), std::chrono::steady_clock::now()) != "hello") {
    return give_up(no_hook_text(spec_.probe.front()));
  }
  state_ = State::importing;
  start(spec_.command, spec_.modules);
  if (state_ != State::over) watch_ = loop_.watch_readable(control_.get(), [this] { hear(); });
}

// A preloader that was stopped, or whose import does not end, must not stop the job.
void Preloader::check() {
  const auto stat = base::read_process_stat(process_->pid());
  if (stat && stat->state == 'T') return give_up(kImportStoppedText);
  const auto now = std::chrono::steady_clock::now();
  if (now - begun_at_ >= limits::kPreloadTime) return give_up(import_too_long_text(limits::kPreloadTime));
  alarm_ = loop_.at(now + limits::kPreloadPoll, [this] { check(); });
}

void Preloader::hear() {
  const std::string answer = receive(control_.get(), std::chrono::steady_clock::now());
  constexpr std::string_view kRefused = "refused ";
  if (answer.starts_with(kReady)) {
    watch_.reset();
    alarm_.reset();
    state_ = State::ready;
    pid_ = static_cast<pid_t>(base::parse_integer(answer.substr(kReady.size()), 1, 1 << 30).value_or(0));
    const auto import = std::chrono::steady_clock::now() - begun_at_;
    callbacks_.note(forked_from_text(pid_, std::chrono::duration_cast<std::chrono::milliseconds>(import)));
    callbacks_.is_decided();
  } else if (answer == "unneeded") {
    end();
  } else if (answer.starts_with(kRefused)) {
    give_up(base::printable(answer.substr(kRefused.size())));
  } else {
    watch_.reset();  // it has ended, which its process shows
  }
}

void Preloader::read(std::string_view bytes) {
  if (state_ == State::asking) return;  // code of .pth files prints the same again
  line_ += bytes;
  for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    callbacks_.note(printed_by_import_text(line_.substr(0, end)));
    line_.erase(0, end + 1);
  }
  line_.resize(std::min(line_.size(), kAnswerBytes));
}

void Preloader::give_up(const std::string& why) {
  if (state_ == State::over) return;
  callbacks_.note(no_preload_text(why));
  end();
}

void Preloader::end() {
  const bool was_importing = is_importing();
  state_ = State::over;
  watch_.reset();
  alarm_.reset();
  control_.reset();
  if (process_) process_->end();
  if (was_importing) callbacks_.is_decided();
}

std::optional<Spawned> Preloader::fork(const WorkerSpec& spec, const WorkerDescriptors& descriptors) {
  if (state_ != State::ready) return std::nullopt;
  const auto until = std::chrono::steady_clock::now() + limits::kForkTime;
  Pair channel = make_sockets();
  const Kept kept = kept_descriptors(spec, descriptors);
  const base::UniqueFd file = file_with(request_for(spec, kept.names));
  std::vector<int> passed = {channel.other.get(), file.get()};
  passed.insert(passed.end(), kept.descriptors.begin(), kept.descriptors.end());
  if (!channel.own || !file || !send_with_descriptors(control_.get(), "fork", passed)) {
    give_up(not_forked_text(std::strerror(errno)));
    return std::nullopt;
  }
  channel.other.reset();
  const std::string answer = receive(channel.own.get(), until);
  if (answer.starts_with(kReady)) return let_go(channel.own.get(), answer.substr(kReady.size()));
  give_up(answer.empty() ? kNotForkedText : base::printable(answer));
  return std::nullopt;
}

// The worker waits at its end of the channel, and exits if it is not let go.
std::optional<Spawned> Preloader::let_go(int channel, std::string_view pid) {
  base::UniqueFd end = open_child(pid);
  base::UniqueFd own(end ? ::fcntl(end.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!own) {
    give_up(kNoPidfdsText);
    return std::nullopt;
  }
  const auto number = static_cast<pid_t>(*base::parse_integer(pid, 1, 1 << 30));
  OwnedProcess process(loop_.asio().context.get_executor(), number, own.release());
  if (::send(channel, "go", 2, MSG_NOSIGNAL) != 2) {
    give_up(kEndedWhileForkedText);
    return std::nullopt;  // the destructor kills and reaps it
  }
  return Spawned{std::move(process), std::move(end)};
}

PreloadSpec make_preload_spec(const LaunchPlan& plan) {
  PreloadSpec result{.refused = plan.preload_refused, .modules = plan.preload};
  if (!result.refused.empty()) return result;
  const WorkerSpec one = example(plan, 1);
  const WorkerSpec other = example(plan, 2);
  const std::set<std::string> others(other.environment.begin(), other.environment.end());
  std::set<std::string> unknown;
  for (const std::string& line : one.environment) {
    const bool is_rank = name_of(line) == wire::env::kLocalRank;
    if (others.contains(line) && !is_rank)
      result.environment.push_back(line);
    else
      unknown.insert(name_of(line));
  }
  for (const std::string& line : other.environment) {
    if (std::ranges::find(one.environment, line) == one.environment.end()) unknown.insert(name_of(line));
  }
  result.probe = python_probe(plan);
  result.command = one.arguments;
  result.command.front() = plan.program;
  result.environment.push_back(wire::env::kPreloadUnknown +
                               ("=" + base::join(std::vector<std::string>(unknown.begin(), unknown.end()), ",")));
  return result;
}

}  // namespace ddp::launcher

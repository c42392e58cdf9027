#include "launcher/start/doctor/run_checks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/exit_status.h"
#include "base/text.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher::doctor {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostBytes = 1 << 20;  // of the findings of one check

struct Running {
  const Check* check = nullptr;
  pid_t pid = -1;
  base::UniqueFd output;
  std::string text;
  bool has_ended = false;  // all of its findings have been read
  bool says_too_much = false;
};

[[noreturn]] void run(const Check& check, const Node& node, int output) {
  Findings findings;
  try {
    findings = check.run(node);
  } catch (const std::exception& error) {
    findings = {unknown(std::string("it could not be checked: ") + error.what())};
  }
  const std::string text = json_text(findings);
  ::_exit(write_all(output, text, std::chrono::milliseconds(0)) ? 0 : 1);
}

Running start(const Check& check, const Node& node) {
  Running running{.check = &check};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return running;
  running.output = base::UniqueFd(ends[0]);
  const base::UniqueFd input(ends[1]);
  running.pid = ::fork();
  if (running.pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // A job beside it must not pay if the memory of the node does not suffice.
    const base::UniqueFd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (score) write_all(score.get(), "1000", std::chrono::milliseconds(0));
    // A process that hangs in the kernel cannot be killed. It must not keep the reader of the doctor's output waiting.
    for (int fd = 0; fd < 3; ++fd) ::dup2(::open("/dev/null", O_RDWR | O_CLOEXEC), fd);
    ::close_range(3, static_cast<unsigned>(input.get()) - 1, 0);
    ::close_range(static_cast<unsigned>(input.get()) + 1, ~0U, 0);
    run(check, node, input.get());
  }
  return running;
}

void read_until(std::vector<Running>& all, Clock::time_point end) {
  while (true) {
    std::vector<pollfd> waits;
    std::vector<Running*> readers;
    for (Running& running : all) {
      if (running.pid <= 0 || running.has_ended) continue;
      waits.push_back({running.output.get(), POLLIN, 0});
      readers.push_back(&running);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (waits.empty()) return;
    // A process that was stopped for long may find all answers after the end.
    const auto most = std::max(left, std::chrono::milliseconds(0));
    if (::poll(waits.data(), waits.size(), static_cast<int>(most.count())) <= 0) {
      if (left.count() <= 0) return;
      continue;
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      char bytes[4096];
      const ssize_t count = base::uninterrupted([&] { return ::read(waits[i].fd, bytes, sizeof bytes); });
      if (count > 0) readers[i]->text.append(bytes, static_cast<std::size_t>(count));
      if (count <= 0) readers[i]->has_ended = true;
      if (readers[i]->text.size() <= kMostBytes) continue;
      readers[i]->has_ended = readers[i]->says_too_much = true;
      ::kill(readers[i]->pid, SIGKILL);
      readers[i]->output.reset();
    }
  }
}

// Kills the process if it has not ended by `end`. Returns how it ended, or std::nullopt if it hangs in the kernel,
// where it cannot be killed, so that nothing should wait for it.
std::optional<base::ExitStatus> end_of(const Running& running, Clock::time_point end) {
  constexpr std::chrono::milliseconds kUntilKilled{200};
  constexpr std::chrono::milliseconds kPause{2};
  int status = 0;
  const auto ends_until = [&](Clock::time_point latest) {
    pid_t ended = 0;
    while ((ended = ::waitpid(running.pid, &status, WNOHANG)) == 0 && Clock::now() < latest)
      std::this_thread::sleep_for(kPause);
    return ended == running.pid;
  };
  if (running.has_ended && ends_until(end)) return base::ExitStatus::from_wait(status);
  ::kill(running.pid, SIGKILL);
  if (ends_until(Clock::now() + kUntilKilled)) return base::ExitStatus::from_wait(status);
  return std::nullopt;
}

Findings findings_of(Running& running, std::chrono::milliseconds limit, Clock::time_point end) {
  if (running.pid <= 0) return {unknown(kNoProcess)};
  const auto status = end_of(running, end);
  if (running.says_too_much) return {unknown("the check says too much to be shown")};
  // An answer counts even if its process does not end, because a driver does not release it.
  if (auto read = read_findings(running.text)) return *read;
  if (!running.has_ended) {
    return {{"", running.check->if_it_hangs,
             "no answer within " + base::human_duration(limit) + ". A driver or a file system may hang",
             "cat /proc/" + std::to_string(running.pid) + "/stack, and dmesg | tail, as root"}};
  }
  return {unknown("the check itself ended early: " + (status ? status->describe() : "it hangs in the kernel"))};
}

}  // namespace

Findings run_checks(std::span<const Check> checks, const Node& node, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  std::vector<Running> all;
  for (const Check& check : checks) all.push_back(start(check, node));
  read_until(all, end);
  Findings findings;
  for (Running& running : all) {
    for (Finding& finding : findings_of(running, limit, end)) {
      finding.check = running.check->name;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace ddp::launcher::doctor

#include "launcher/stacks/stack_taker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/limits.h"
#include "launcher/process/process_look.h"
#include "launcher/stacks/symbols.h"

namespace ddp::launcher {

// Names are read from files, which may lie on a file system that hangs: a thread of its own does it, and is left to
// itself when the time is over.
struct StackTaker::Naming {
  struct Process {
    std::string maps;
    std::vector<RawStack> raw;
    std::vector<ThreadStack> named;
  };
  std::vector<Process> processes;
  base::UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> is_done = false;

  void run() {
    SymbolFiles files;
    for (Process& process : processes) {
      Symbolizer symbolizer(process.maps, files);
      for (const RawStack& raw : process.raw) {
        ThreadStack stack{raw.tid, "", {}};
        for (std::size_t i = 0; i < raw.addresses.size() && i < kStackFrames; ++i) {
          stack.frames.push_back(symbolizer.describe(raw.addresses[i], i > 0));
        }
        process.named.push_back(std::move(stack));
      }
    }
    is_done = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(ready.get(), &one, sizeof one);
  }
};

namespace {

struct Tool {
  const char* name;
  std::vector<std::string> arguments;  // before the pid
  std::vector<ThreadStack> (*parse)(std::string_view text);
};

// In the order in which they are tried. All but py-spy's --nonblocking stop the process for a moment.
const std::vector<Tool>& tools_for(bool python, StackMeans means) {
  static const std::vector<Tool> none;
  static const std::vector<Tool> gentle = {{"py-spy", {"dump", "--nonblocking", "--json", "--pid"}, parse_py_spy}};
  if (means == StackMeans::gentle) return python ? gentle : none;
  static const std::vector<Tool> native = {
      {"eu-stack", {"-s", "-m", "-n", "64", "-p"}, parse_eu_stack},
      {"gdb",
       {"-batch", "-nx", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off", "-iex",
        "set print frame-arguments none", "-ex", "thread apply all -ascending bt 64", "-p"},
       parse_gdb}};
  static const std::vector<Tool> of_python = {
      {"py-spy", {"dump", "--json", "--pid"}, parse_py_spy}, native[0], native[1]};
  return python ? of_python : native;
}

// Where in the kernel each thread waits: all that there is without a tool.
std::vector<ThreadStack> kernel_stacks(pid_t pid) {
  std::vector<ThreadStack> stacks;
  for (const ThreadLook& thread : look_at_threads(pid, kStackThreads)) {
    const std::string place = thread.waits_in.empty() ? thread.state == 'R' ? "running" : "??" : thread.waits_in;
    stacks.push_back({thread.tid, thread.name, {place + " (kernel)"}});
  }
  return stacks;
}

}  // namespace

StackTaker::~StackTaker() = default;

void StackTaker::take(const std::vector<StackTarget>& targets, StackMeans means, Done done) {
  done_ = std::move(done);
  means_ = means;
  began_ = Clock::now();
  asked_.clear();
  asked_.reserve(targets.size());  // tools refer to their places
  for (const StackTarget& target : targets) {
    Asked asked;
    asked.target = target;
    asked.request = processes_.ask_for_stacks(target.local_rank, means);
    asked.result.rank = target.rank;
    asked_.push_back(std::move(asked));
  }
  int tools = 0;
  for (Asked& asked : asked_) {
    // What says itself where its threads are needs no tool, unless that is where its interpreter is.
    const bool python = asked.request.pid > 0 && is_python(asked.request.pid);
    if (asked.request.obstacle.empty() && !python) continue;
    if (asked.request.pid == 0) {
      asked.result.missing.push_back(asked.request.obstacle);
      asked.is_done = true;
    } else if (!tools_for(python, means).empty() && ++tools > limits::kStackTools) {
      asked.result.missing.push_back("no more than " + std::to_string(limits::kStackTools) + " tools at a time");
      if (means == StackMeans::gentle) take_from_kernel(asked);
      asked.is_done = !asked.request.obstacle.empty();
    } else {
      run_tool(asked);
    }
  }
  look();
}

void StackTaker::run_tool(Asked& asked) {
  const pid_t pid = asked.request.pid;
  if (!asked.request.obstacle.empty()) asked.result.missing.push_back("signal handler: " + asked.request.obstacle);
  for (const Tool& tool : tools_for(is_python(pid), means_)) {
    const auto path = find_tool(tool.name);
    if (!path) {
      asked.result.missing.push_back(std::string(tool.name) + ": not found in PATH");
      continue;
    }
    std::vector<std::string> arguments = tool.arguments;
    arguments.push_back(std::to_string(pid));
    asked.tool = std::make_unique<ToolRun>(loop_, *path, arguments, [this, &asked, &tool](const std::string& output) {
      asked.result.threads = tool.parse(output);
      asked.result.source = tool.name;
      if (asked.result.threads.empty() && means_ == StackMeans::gentle) {
        take_from_kernel(asked);
      } else if (asked.result.threads.empty()) {
        asked.result.source.clear();
        asked.result.missing.push_back(std::string(tool.name) + ": told no stack (may it look into the process?)");
      }
      asked.is_done = true;
    });
    if (!asked.tool->has_failed()) return;
    asked.result.missing.push_back(std::string(tool.name) + ": could not be started");
  }
  asked.is_done = !asked.request.obstacle.empty();
  if (means_ == StackMeans::gentle) take_from_kernel(asked);
}

void StackTaker::take_from_kernel(Asked& asked) {
  asked.result.threads = kernel_stacks(asked.request.pid);
  asked.result.source = "kernel";
}

// Until all have answered, or no more time is to be lost.
void StackTaker::look() {
  const auto age = Clock::now() - began_;
  bool is_waiting = false;
  for (Asked& asked : asked_) {
    if (asked.is_done) continue;
    if (asked.tool && !asked.tool->has_failed()) {
      is_waiting = is_waiting || age < limits::kStackToolTime;
      continue;
    }
    asked.raw = processes_.stacks(asked.target.local_rank);
    asked.is_done = asked.raw.size() >= asked.request.threads.size();
    is_waiting = is_waiting || (asked.raw.size() < asked.request.answers && age < limits::kStackAnswerTime);
  }
  if (!is_waiting) return name_frames();
  timer_ = loop_.at(Clock::now() + limits::kStackPoll, [this] { look(); });
}

void StackTaker::name_frames() {
  naming_ = std::make_shared<Naming>();
  for (Asked& asked : asked_) {
    if (asked.tool && !asked.is_done) asked.result.missing.push_back("its tool took too long");
    // It had been asked by signal, too: a tool that knew nothing is no loss.
    if (asked.raw.empty() && asked.result.threads.empty() && asked.request.obstacle.empty()) {
      asked.raw = processes_.stacks(asked.target.local_rank);
    }
    if (asked.raw.empty()) continue;
    naming_->processes.push_back(
        {base::read_file("/proc/" + std::to_string(asked.request.pid) + "/maps"), asked.raw, {}});
  }
  if (naming_->processes.empty()) return finish();
  named_ = loop_.watch_readable(naming_->ready.get(), [this] { finish(); });
  timer_ = loop_.at(began_ + limits::kStackTime, [this] { finish(); });
  try {
    std::thread([naming = naming_] { naming->run(); }).detach();
  } catch (const std::system_error&) {
    finish();  // addresses without names
  }
}

void StackTaker::finish() {
  timer_.reset();
  named_.reset();
  std::size_t next = 0;
  std::vector<RankStacks> result;
  for (Asked& asked : asked_) {
    if (!asked.raw.empty()) {
      Naming::Process& process = naming_->processes[next++];
      asked.result.source = "signal handler";
      if (naming_->is_done) asked.result.threads = std::move(process.named);
      if (!naming_->is_done) asked.result.missing.emplace_back("the names of its functions took too long to read");
    }
    const std::vector<ThreadLook> looks = look_at_threads(asked.request.pid, kStackThreads);
    std::vector<ThreadStack>& threads = asked.result.threads;
    for (ThreadStack& thread : threads) {
      const auto look = std::find_if(looks.begin(), looks.end(), [&](const auto& l) { return l.tid == thread.tid; });
      if (thread.name.empty() && look != looks.end()) thread.name = look->name;
    }
    std::stable_sort(threads.begin(), threads.end(), [&](const ThreadStack& a, const ThreadStack& b) {
      return (a.tid == asked.request.pid) > (b.tid == asked.request.pid);
    });
    for (const pid_t tid : asked.request.threads) {
      const bool answered = std::any_of(threads.begin(), threads.end(), [&](const auto& t) { return t.tid == tid; });
      if (!answered && asked.result.source == "signal handler") {
        asked.result.missing.push_back("thread " + std::to_string(tid) +
                                       ": no answer (stopped, or the signal is blocked)");
      }
    }
    if (threads.empty() && asked.request.obstacle.empty() && asked.raw.empty() && asked.result.missing.empty()) {
      asked.result.missing.emplace_back("signal handler: no answer (stopped, in the kernel, or the signal is blocked)");
    }
    result.push_back(std::move(asked.result));
  }
  asked_.clear();
  naming_.reset();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result));
}

}  // namespace ddp::launcher

#include "launcher/run/ranks/stack_taker.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "launcher/limits.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/run/process/process_sample.h"
#include "launcher/run/process/process_tree.h"

namespace ddp::launcher {

namespace {

constexpr std::size_t kMostChildren = 4;  // per rank

constexpr const char* kReader = "ddp_stack_reader";

// Returns the stacks of one process.
std::vector<ThreadStack> parse_copied(std::string_view text) {
  auto processes = parse_stack_reader(text);
  return processes.empty() ? std::vector<ThreadStack>() : std::move(processes.begin()->second);
}

// Returns where in the kernel each thread waits. Without a tool, nothing else is known.
std::vector<ThreadStack> kernel_stacks(pid_t pid) {
  std::vector<ThreadStack> stacks;
  for (const ThreadSample& thread : sample_threads(pid, kStackThreads)) {
    const std::string place = thread.waits_in.empty() ? thread.state == 'R' ? "running" : "??" : thread.waits_in;
    stacks.push_back({thread.tid, thread.name, {place + " (kernel)"}});
  }
  return stacks;
}

StackCapture capture_of(pid_t pid, const std::vector<RawStack>& raw) {
  StackCapture capture{pid, base::read_file("/proc/" + std::to_string(pid) + "/maps"), {}, ""};
  for (const RawStack& stack : raw) {
    const std::size_t count = std::min(stack.addresses.size(), kStackFrames);
    capture.threads.push_back(
        {stack.tid,
         false,
         {},
         "",
         {stack.addresses.begin(), stack.addresses.begin() + static_cast<std::ptrdiff_t>(count)}});
  }
  return capture;
}

// Returns the stacks without the names of functions.
std::vector<ThreadStack> addresses_of(const std::vector<RawStack>& raw) {
  std::vector<ThreadStack> threads;
  for (const RawStack& stack : raw) {
    ThreadStack& thread = threads.emplace_back(ThreadStack{stack.tid, "", {}});
    for (const std::uint64_t address : stack.addresses) {
      if (thread.frames.size() < kStackFrames) thread.frames.push_back("?? (0x" + base::hex64(address) + ")");
    }
  }
  return threads;
}

}  // namespace

struct StackTaker::Tool {
  StackSource source;
  std::string_view name;
  std::vector<std::string> arguments;  // arguments before the pid
  std::vector<ThreadStack> (*parse)(std::string_view text);

  bool is_ours() const { return source == StackSource::copied_stack; }
  std::optional<std::string> path() const {
    return is_ours() ? our_program(std::string(name)) : find_tool(std::string(name));
  }
};

// Returns the tools in the order in which they are tried. Tools that are not gentle stop the process for a moment.
std::span<const StackTaker::Tool> StackTaker::tools_for(bool python, StackMeans means) {
  static const std::array<Tool, 2> gentle = {
      {{StackSource::py_spy, "py-spy", {"dump", "--nonblocking", "--json", "--pid"}, parse_py_spy},
       {StackSource::copied_stack, kReader, {}, parse_copied}}};
  static const std::array<Tool, 4> any = {
      {{StackSource::py_spy, "py-spy", {"dump", "--json", "--pid"}, parse_py_spy},
       {StackSource::eu_stack, "eu-stack", {"-s", "-m", "-n", "64", "-p"}, parse_eu_stack},
       {StackSource::gdb,
        "gdb",
        {"-batch", "-nx", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off", "-iex",
         "set print frame-arguments none", "-ex", "thread apply all -ascending bt 64", "-p"},
        parse_gdb},
       {StackSource::copied_stack, kReader, {}, parse_copied}}};
  const std::span<const Tool> tools = means == StackMeans::any ? any : std::span<const Tool>(gentle);
  return tools.subspan(python && means != StackMeans::gentle_native ? 0 : 1);
}

StackTaker::~StackTaker() = default;

void StackTaker::take(const std::vector<StackTarget>& targets, StackMeans means, Done done) {
  done_ = std::move(done);
  means_ = means;
  began_ = Clock::now();
  asked_.clear();
  asked_.reserve(targets.size());  // the tools' callbacks refer to the elements
  for (const StackTarget& target : targets) {
    Asked asked;
    asked.target = target;
    asked.request = probe_.ask_for_stacks(target.local_rank, means);
    asked.result.rank = target.rank;
    asked_.push_back(std::move(asked));
  }
  copy_stacks();
}

// If the memory map of a process is locked, reading its memory hangs. So a separate thread reads it, which may be left
// behind.
void StackTaker::copy_stacks() {
  std::map<pid_t, bool> spins;
  for (const Asked& asked : asked_) {
    const bool has_room = static_cast<int>(spins.size()) < limits::kStackTools;
    if (asked.request.pid > 0 && has_room && !has_signal(asked)) spins[asked.request.pid] = asked.target.spins;
  }
  copying_.emplace([spins, holds_threads = means_ != StackMeans::gentle_native] {
    Captures captures;
    for (const auto& [pid, holds_first] : spins) {
      const auto is_left_alone = [&](const ThreadCapture& thread) {
        return thread.runs && !holds_threads && !(holds_first && thread.tid == pid);
      };
      captures[pid] = capture_stacks(pid, kStackThreads);
      std::erase_if(captures[pid].threads, is_left_alone);
    }
    return captures;
  });
  const auto over = [this] {
    captures_ = copying_->result().value_or(Captures());
    ask_tools();
  };
  over_ = loop_.watch_readable(copying_->ready(), over);
  timer_ = loop_.at(began_ + limits::kStackCopyTime, over);
}

void StackTaker::ask_tools() {
  over_.reset();
  timer_.reset();
  int tools = 0;
  for (Asked& asked : asked_) {
    // A program that reports its stacks itself needs no tool, except Python: its addresses show only the interpreter.
    const bool python = asked.request.pid > 0 && is_python(asked.request.pid);
    if (has_signal(asked) && !python) continue;
    if (asked.request.pid == 0) {
      asked.result.missing.push_back(asked.request.obstacle);
      asked.is_done = true;
      continue;
    }
    if (++tools > limits::kStackTools) {
      asked.result.missing.push_back("at most " + std::to_string(limits::kStackTools) + " tools run at a time");
    } else {
      asked.tools = tools_for(python, means_);
      if (has_signal(asked)) asked.tools = asked.tools.first(1);  // native functions come from its signal handler
      const bool is_asked = means_ == StackMeans::any && !has_signal(asked);
      if (is_asked) asked.result.missing.push_back("signal handler: " + asked.request.obstacle);
    }
    run_next_tool(asked);
  }
  poll();
}

void StackTaker::run_next_tool(Asked& asked) {
  const pid_t pid = asked.request.pid;
  while (!asked.tools.empty()) {
    const Tool& tool = asked.tools.front();
    asked.tools = asked.tools.subspan(1);
    const auto lacks = [&](const std::string& why) {
      asked.result.missing.push_back(std::string(tool.name) + ": " + why);
    };
    const auto path = tool.path();
    if (!path) {
      lacks("not found in PATH");
      continue;
    }
    std::vector<std::string> arguments = tool.arguments;
    base::UniqueFd input;
    if (tool.is_ours()) {
      const auto capture = captures_.find(pid);
      if (capture == captures_.end() || !capture->second.obstacle.empty()) {
        lacks(capture == captures_.end() ? "its stacks took too long to copy" : capture->second.obstacle);
        continue;
      }
      input = file_with(to_bytes(std::span(&capture->second, 1)));
    } else {
      arguments.push_back(std::to_string(pid));
    }
    asked.tool = std::make_unique<ToolRun>(
        loop_, *path, arguments, [this, &asked, &tool](const std::string& output) { tool_ended(asked, tool, output); },
        std::move(input));
    asked.running = &tool;
    if (!asked.tool->has_failed()) return;
    asked.tool.reset();
    lacks("could not be started (" + *path + ")");
  }
  if (means_ != StackMeans::any) take_from_kernel(asked);
  asked.is_done = !has_signal(asked);
}

void StackTaker::tool_ended(Asked& asked, const Tool& tool, const std::string& output) {
  asked.tool.reset();
  asked.result.threads = tool.parse(output);
  if (asked.result.threads.empty()) {
    asked.result.missing.push_back(std::string(tool.name) + ": printed no stack (is it allowed to trace the process?)");
    return run_next_tool(asked);
  }
  asked.result.source = tool.source;
  if (tool.source != StackSource::py_spy) {
    asked.is_done = true;
    return;
  }
  for (const pid_t child : children_of(asked.request.pid)) {
    if (asked.children.size() < kMostChildren && is_python(child)) asked.children.push_back(child);
  }
  take_next_child(asked, tool);
}

// Takes the stacks of the first threads of the processes that the worker has started, such as data loader workers.
void StackTaker::take_next_child(Asked& asked, const Tool& tool) {
  asked.tool.reset();
  const auto path = tool.path();
  if (asked.children.empty() || !path) {
    asked.is_done = true;
    return;
  }
  const pid_t child = asked.children.back();
  asked.children.pop_back();
  std::vector<std::string> arguments = tool.arguments;
  arguments.push_back(std::to_string(child));
  asked.tool =
      std::make_unique<ToolRun>(loop_, *path, arguments, [this, &asked, &tool, child](const std::string& output) {
        std::vector<ThreadStack> threads = tool.parse(output);
        if (!threads.empty() && asked.result.threads.size() < kStackThreads) {
          threads.front().name = kOfProcess + std::to_string(child);
          asked.result.threads.push_back(std::move(threads.front()));
        }
        take_next_child(asked, tool);
      });
  if (asked.tool->has_failed()) take_next_child(asked, tool);
}

void StackTaker::take_from_kernel(Asked& asked) {
  asked.result.threads = kernel_stacks(asked.request.pid);
  asked.result.source = StackSource::kernel;
}

// Polls until all have answered or their time is over.
void StackTaker::poll() {
  const auto age = Clock::now() - began_;
  bool is_waiting = false;
  for (Asked& asked : asked_) {
    if (asked.is_done) continue;
    if (asked.tool) {
      is_waiting = is_waiting || age < limits::kStackToolTime;
      continue;
    }
    asked.raw = probe_.stacks(asked.target.local_rank);
    asked.is_done = asked.raw.size() >= asked.request.threads.size();
    is_waiting = is_waiting || (asked.raw.size() < asked.request.answers && age < limits::kStackAnswerTime);
  }
  if (!is_waiting) return name_frames();
  timer_ = loop_.at(Clock::now() + limits::kStackPoll, [this] { poll(); });
}

// Another program reads the names from files, because these may have any content, or lie on a file system that hangs.
void StackTaker::name_frames() {
  std::vector<StackCapture> raw;
  for (Asked& asked : asked_) {
    if (asked.tool && !asked.result.threads.empty()) asked.tool.reset();  // the tool was taking a child's stack
    if (asked.tool) {
      asked.result.threads = asked.running->parse(asked.tool->output_so_far());
      asked.result.source = asked.result.threads.empty() ? StackSource::none : asked.running->source;
      asked.tool.reset();
      asked.result.missing.emplace_back("its tool took too long");
      if (means_ != StackMeans::any && asked.result.threads.empty()) take_from_kernel(asked);
    }
    // The program was asked by signal, too, so a tool that found nothing is no loss.
    if (asked.raw.empty() && asked.result.threads.empty() && has_signal(asked)) {
      asked.raw = probe_.stacks(asked.target.local_rank);
    }
    if (asked.raw.empty()) continue;
    raw.push_back(capture_of(asked.request.pid, asked.raw));
  }
  if (raw.empty()) return finish();
  naming_ = std::make_unique<ToolRun>(
      loop_, our_program(kReader), std::vector<std::string>(),
      [this](const std::string& output) {
        names_ = parse_stack_reader(output);
        finish();
      },
      file_with(to_bytes(raw)));
  if (naming_->has_failed()) return finish();
  timer_ = loop_.at(began_ + limits::kStackTime, [this] { finish(); });
}

void StackTaker::finish() {
  timer_.reset();
  over_.reset();
  if (naming_ && names_.empty()) names_ = parse_stack_reader(naming_->output_so_far());
  std::vector<RankStacks> result;
  for (Asked& asked : asked_) {
    if (!asked.raw.empty()) {
      asked.result.source = StackSource::signal_handler;
      const auto names = names_.find(asked.request.pid);
      if (names == names_.end())
        asked.result.missing.emplace_back("the names of its functions could not be determined in time");
      asked.result.threads = names == names_.end() ? addresses_of(asked.raw) : names->second;
    }
    const std::vector<ThreadSample> samples = sample_threads(asked.request.pid, kStackThreads);
    std::vector<ThreadStack>& threads = asked.result.threads;
    for (ThreadStack& thread : threads) {
      const auto sample = std::ranges::find_if(samples, [&](const auto& l) { return l.tid == thread.tid; });
      if (thread.name.empty() && sample != samples.end()) thread.name = sample->name;
    }
    std::ranges::stable_sort(threads, [&](const ThreadStack& a, const ThreadStack& b) {
      return (a.tid == asked.request.pid) > (b.tid == asked.request.pid);
    });
    for (const pid_t tid : asked.request.threads) {
      const bool answered = std::ranges::any_of(threads, [&](const auto& t) { return t.tid == tid; });
      if (!answered && asked.result.source == StackSource::signal_handler) {
        asked.result.missing.push_back("thread " + std::to_string(tid) +
                                       " did not answer (it is stopped, or it blocks the signal)");
      }
    }
    // If the first thread has not answered, another thread must not take its place.
    const bool is_first = threads.empty() || threads.front().tid == asked.request.pid;
    if (!is_first && asked.result.source == StackSource::signal_handler) {
      threads.insert(threads.begin(),
                     {asked.request.pid, samples.empty() ? "" : samples.front().name, {"?? (no answer)"}});
    }
    if (threads.empty() && has_signal(asked) && asked.raw.empty() && asked.result.missing.empty()) {
      asked.result.missing.emplace_back(
          "its signal handler did not answer (it is stopped, in the kernel, or blocks the signal)");
    }
    result.push_back(std::move(asked.result));
  }
  asked_.clear();
  naming_.reset();
  names_.clear();
  captures_.clear();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result));
}

}  // namespace ddp::launcher

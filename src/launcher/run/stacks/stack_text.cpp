#include "launcher/run/stacks/stack_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "launcher/run/output/python_traceback.h"
#include "launcher/run/stacks/function_name.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHook = "/ddp_python/sitecustomize.py";  // ddplaunch's wrapper of a PyTorch function
constexpr std::size_t kMostLineBytes = std::size_t{64} << 10;       // the rest of a longer line is ignored

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Removes the digits at the beginning of `text` and returns them.
std::string_view take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
  text.remove_prefix(digits.size());
  return digits;
}

int to_int(std::string_view digits) {
  return static_cast<int>(base::parse_integer(digits, 0, std::numeric_limits<int>::max()).value_or(0));
}

std::string frame(std::string function, std::string_view place) {
  if (place.empty()) return function;
  std::string file = frame_text(place.substr(place.find_last_of('/') + 1));
  return std::move(function) + " (" + file + ")";
}

// Removes "#12 " and "0x00007f6253aa3f7b" from the front of a line, and returns the address. It may be empty.
std::optional<std::string_view> take_frame_start(std::string_view& line) {
  if (!take_prefix(line, "#") || take_digits(line).empty() || !take_prefix(line, " ")) return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with("0x")) return "";
  const std::size_t end = std::min(line.find_first_not_of("0123456789abcdef", 2), line.size());
  const std::string_view address = line.substr(0, end);
  line.remove_prefix(end);
  return address;
}

// ---- Output of py-spy.

std::string string_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string py_spy_frame(const Json& entry) {
  const std::string name = string_member(entry, "name");
  const std::int64_t line = number_of(entry, "line");
  std::string file = string_member(entry, "short_filename");
  if (file.empty()) file = string_member(entry, "filename");
  if (line > 0) {
    // The folder of a library's file is kept. It shows the library, and that the file is not the user's.
    const std::string whole = string_member(entry, "filename");
    const std::size_t folder = is_library_file(whole) ? whole.rfind('/', whole.rfind('/') - 1) : std::string::npos;
    const std::string shown = folder == std::string::npos ? file.substr(file.rfind('/') + 1) : whole.substr(folder + 1);
    return frame_text(name) + " (" + frame_text(shown) + ":" + std::to_string(line) + ")";
  }
  // This frame comes from --native. A name that is an address says nothing.
  const bool unknown = name.empty() || name.starts_with("0x");
  return frame(unknown ? "??" : short_function_name(name), file.empty() && unknown ? name : file);
}

// ---- Output of gdb.

// Parses `Thread 2 (Thread 0x7f6253a1d6c0 (LWP 10229) "data (loader)"):` or, for a program without threads, `Thread 1
// (process 10908 "train"):`. Returns gdb's number of the thread, too. The first thread of the process has the number 1.
std::optional<std::pair<int, ThreadStack>> parse_gdb_thread(std::string_view line) {
  if (!take_prefix(line, "Thread ")) return std::nullopt;
  const int number = to_int(take_digits(line));
  if (number == 0 || !take_prefix(line, " (")) return std::nullopt;
  ThreadStack thread;
  const std::size_t quote = line.find('"');
  const std::size_t end = line.rfind('"');
  if (quote < end) thread.name = frame_text(line.substr(quote + 1, end - quote - 1));
  line = line.substr(0, quote);
  for (const std::string_view word : {"LWP ", "process "}) {
    const std::size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    line.remove_prefix(at + word.size());
    thread.tid = to_int(take_digits(line));
    break;
  }
  return std::pair(number, thread);
}

// Parses "model::Queue::take (this=0x7ffe, text="a) at b.cpp:3") at queue.cpp:12", "load(int) () from /lib/libload.so",
// or "<signal handler called>". Values may contain any text, in quotes.
std::string gdb_frame(std::string_view text, std::string_view address) {
  const std::vector<std::size_t> ends = closing_brackets(text);
  std::string_view name = text;
  std::string_view place;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (ends[i] == std::string_view::npos) continue;
    std::string_view rest = text.substr(ends[i] + 1);
    const bool is_last = rest.empty() || rest.starts_with(" at ") || rest.starts_with(" from ");
    if (text[i] == '(' && i > 0 && text[i - 1] == ' ' && is_last) {
      name = text.substr(0, i - 1);
      if (take_prefix(rest, " at ") || take_prefix(rest, " from ")) place = rest;
      break;
    }
    i = ends[i];
  }
  if (name == "??" && place.empty()) place = address;
  return frame(short_function_name(name), place);
}

// ---- Output of eu-stack.

struct EuFrame {
  std::string function;
  std::string place;  // an address or a module; the next line may contain the source
};

// Parses " main - /home/u/train", " - /usr/lib/libstdc++.so.6.0.30", " pthread_cond_wait@@GLIBC_2.3.2", or "".
EuFrame eu_stack_frame(std::string_view text, std::string_view address) {
  std::size_t dash = text.find(" - /");
  if (dash == std::string_view::npos) dash = text.rfind(" - ");
  std::string_view name = text.substr(0, dash);
  const std::string_view module = dash == std::string_view::npos ? "" : text.substr(dash + 3);
  take_prefix(name, " ");
  if (name.find_first_of(" (<") == std::string_view::npos) name = name.substr(0, name.find('@'));
  return {name.empty() ? "??" : short_function_name(name),
          std::string(module.empty() && name.empty() ? address : module)};
}

// Returns text such as "    ./nptl/futex-internal.c:57:12" without the spaces and the column.
std::string_view source_place(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto ends_with_number = [](std::string_view text) {
    const std::size_t colon = text.rfind(':');
    return colon != std::string_view::npos && colon + 1 < text.size() &&
           text.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  };
  const std::string_view without_column = line.substr(0, line.rfind(':'));
  return ends_with_number(line) && ends_with_number(without_column) ? without_column : line;
}

void put_first(std::vector<ThreadStack>& threads, int pid) {
  std::stable_partition(threads.begin(), threads.end(), [&](const ThreadStack& thread) { return thread.tid == pid; });
  if (threads.size() > kStackThreads) threads.resize(kStackThreads);
}

}  // namespace

std::map<int, std::vector<ThreadStack>> parse_stack_reader(std::string_view text) {
  std::map<int, std::vector<ThreadStack>> processes;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const Json process = Json::parse(text.substr(0, end), nullptr, false);
    if (!process.is_object() || !process.contains("threads")) continue;
    std::vector<ThreadStack> threads;
    for (const Json& entry : process["threads"]) {
      if (!entry.is_object() || !entry.contains("frames") || threads.size() >= kStackThreads) continue;
      ThreadStack thread{static_cast<int>(number_of(entry, "tid")), "", {}};
      for (const Json& one : entry["frames"]) {
        if (one.is_string() && thread.frames.size() <= kStackFrames) thread.frames.push_back(one.get<std::string>());
      }
      if (!thread.frames.empty()) threads.push_back(std::move(thread));
    }
    if (!threads.empty()) processes[static_cast<int>(number_of(process, "pid"))] = std::move(threads);
  }
  return processes;
}

std::vector<ThreadStack> parse_py_spy(std::string_view json) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::vector<ThreadStack> threads;
  if (!document.is_array()) return threads;
  std::int64_t pid = 0;
  for (const Json& entry : document) {
    if (!entry.is_object()) continue;
    const std::int64_t tid = number_of(entry, "os_thread_id");
    ThreadStack thread;
    if (tid > 0 && tid <= std::numeric_limits<int>::max()) thread.tid = static_cast<int>(tid);
    thread.name = frame_text(string_member(entry, "thread_name"));
    if (pid == 0) pid = number_of(entry, "pid");
    const auto frames = entry.find("frames");
    if (frames == entry.end() || !frames->is_array()) continue;
    for (const Json& part : *frames) {
      if (thread.frames.size() >= kStackFrames || !part.is_object()) continue;
      if (!string_member(part, "filename").ends_with(kHook)) thread.frames.push_back(py_spy_frame(part));
    }
    threads.push_back(std::move(thread));
  }
  put_first(threads, pid > 0 && pid <= std::numeric_limits<int>::max() ? static_cast<int>(pid) : -1);
  return threads;
}

std::vector<ThreadStack> parse_gdb(std::string_view text) {
  std::vector<std::pair<int, ThreadStack>> numbered;
  while (!text.empty()) {
    std::string_view line = base::take_line(text).substr(0, kMostLineBytes);
    if (auto thread = parse_gdb_thread(line)) {
      numbered.push_back(std::move(*thread));
      continue;
    }
    const auto start = take_frame_start(line);
    if (!start || numbered.empty() || numbered.back().second.frames.size() >= kStackFrames) continue;
    if (!start->empty()) take_prefix(line, " in ");
    numbered.back().second.frames.push_back(gdb_frame(line, *start));
  }
  std::ranges::stable_sort(numbered, {}, &std::pair<int, ThreadStack>::first);
  if (numbered.size() > kStackThreads) numbered.resize(kStackThreads);
  std::vector<ThreadStack> threads;
  for (auto& [number, thread] : numbered) threads.push_back(std::move(thread));
  return threads;
}

std::vector<ThreadStack> parse_eu_stack(std::string_view text) {
  std::vector<ThreadStack> threads;
  std::optional<EuFrame> last;  // the next line may contain its source
  const auto finish_frame = [&](std::string_view source) {
    if (last && !threads.empty() && threads.back().frames.size() < kStackFrames) {
      threads.back().frames.push_back(frame(std::move(last->function), source.empty() ? last->place : source));
    }
    last.reset();
  };
  int pid = -1;
  while (!text.empty()) {
    std::string_view line = base::take_line(text).substr(0, kMostLineBytes);
    finish_frame(line.starts_with("    ") ? source_place(line) : "");
    if (const auto start = take_frame_start(line)) {
      last = eu_stack_frame(line, *start);
    } else if (take_prefix(line, "PID ")) {
      pid = to_int(take_digits(line));
    } else if (take_prefix(line, "TID ")) {
      threads.push_back({to_int(take_digits(line)), "", {}});
    }
  }
  finish_frame("");
  put_first(threads, pid);
  return threads;
}

std::vector<std::string> stack_lines(const RankStacks& stacks) {
  std::vector<std::string> lines;
  if (stacks.source != StackSource::none)
    lines.push_back("source: " + nlohmann::json(stacks.source).get<std::string>());
  for (const ThreadStack& thread : stacks.threads) {
    std::string title = thread.tid == 0 ? "thread" : "thread " + std::to_string(thread.tid);
    if (!thread.name.empty()) title += " (" + thread.name + ")";
    lines.push_back(title + ":");
    for (const std::string& frame : thread.frames) lines.push_back("  " + frame);
  }
  for (const std::string& missing : stacks.missing) lines.push_back("not available: " + missing);
  return lines;
}

}  // namespace ddp::launcher

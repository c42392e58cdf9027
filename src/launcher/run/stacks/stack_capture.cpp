#include "launcher/run/stacks/stack_capture.h"

#include <nlohmann/json.hpp>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "launcher/run/process/process_sample.h"

namespace ddp::launcher {

// Stacks and the paths of files need not be UTF-8. CBOR accepts such text; only JSON's dump() would reject it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ThreadCapture, tid, runs, registers, stack, addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StackCapture, pid, maps, threads)

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kSamples = 4;  // samples of a running thread, which may begin to wait
constexpr std::chrono::milliseconds kBetweenSamples{3};
constexpr int kTries = 3;  // attempts to find a thread at the same place before and after its stack is copied

std::optional<std::uint64_t> parse_address(std::string_view text) {
  return text.starts_with("0x") ? base::parse_hex(text.substr(2)) : std::nullopt;
}

std::optional<ThreadCapture> sample_place(pid_t pid, pid_t tid) {
  auto place =
      parse_thread_place(base::read_file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/syscall"));
  if (place) place->tid = tid;
  return place;
}

// Returns std::nullopt if the thread has ended, or never stays at the same place.
std::optional<ThreadCapture> capture_thread(pid_t pid, pid_t tid) {
  for (int i = 0; i < kTries; ++i) {
    auto place = sample_place(pid, tid);
    if (!place || place->runs) return place;
    std::string stack = copy_stack(pid, place->registers[kStackPointer], kMostStack);
    if (sample_place(pid, tid) != place) continue;
    place->stack = std::move(stack);
    return place;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ThreadCapture> parse_thread_place(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text == "running") return ThreadCapture{0, true, {}, ""};
  // The format is "NUMBER ARGUMENT... STACK_POINTER PROGRAM_COUNTER", or "-1 STACK_POINTER PROGRAM_COUNTER" outside of
  // a call.
  const std::vector<std::string> words = base::split(text, ' ');
  if (words.size() != 3 && words.size() != 9) return std::nullopt;
  const auto stack_pointer = parse_address(words[words.size() - 2]);
  const auto program_counter = parse_address(words.back());
  if (!stack_pointer || !program_counter) return std::nullopt;
  return ThreadCapture{0, false, {{kStackPointer, *stack_pointer}, {kProgramCounter, *program_counter}}, ""};
}

std::string copy_stack(pid_t pid, std::uint64_t stack_pointer, std::size_t most) {
  std::string bytes(most, '\0');
  const iovec into{bytes.data(), bytes.size()};
  std::vector<iovec> pages;  // reading ends before the first page that is not mapped
  for (std::size_t done = 0; done < most;) {
    const std::size_t size = std::min(kPage - (stack_pointer + done) % kPage, most - done);
    pages.push_back({reinterpret_cast<void*>(stack_pointer + done), size});  // NOLINT: an address of another process
    done += size;
  }
  const ssize_t got = ::process_vm_readv(pid, &into, 1, pages.data(), pages.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

StackCapture capture_stacks(pid_t pid, std::size_t most_threads) {
  StackCapture capture{pid, "", {}, ""};
#ifdef __x86_64__
  capture.maps = base::read_file("/proc/" + std::to_string(pid) + "/maps");
  const std::vector<ThreadSample> threads = sample_threads(pid, most_threads);
  for (const ThreadSample& thread : threads) {
    auto captured = capture_thread(pid, thread.tid);
    if (captured) capture.threads.push_back(std::move(*captured));
  }
  for (int sample = 1; sample < kSamples; ++sample) {
    if (std::ranges::none_of(capture.threads, &ThreadCapture::runs)) break;
    std::this_thread::sleep_for(kBetweenSamples);
    for (ThreadCapture& thread : capture.threads) {
      if (!thread.runs) continue;
      if (auto again = capture_thread(pid, thread.tid)) thread = std::move(*again);
    }
  }
  const bool has_stack = std::ranges::any_of(capture.threads, [](const auto& t) { return t.runs || !t.stack.empty(); });
  if (threads.empty()) {
    capture.obstacle = "it has exited";
  } else if (capture.maps.empty() || !has_stack) {
    capture.obstacle = "ddplaunch is not permitted to read its memory";
  }
#else
  static_cast<void>(most_threads);
  capture.obstacle = "not supported on this processor architecture";
#endif
  return capture;
}

std::string to_bytes(std::span<const StackCapture> captures) {
  std::string bytes;
  nlohmann::json::to_cbor(std::vector<StackCapture>(captures.begin(), captures.end()), bytes);
  return bytes;
}

std::optional<std::vector<StackCapture>> captures_from_bytes(std::string_view bytes) try {
  return nlohmann::json::from_cbor(bytes).get<std::vector<StackCapture>>();
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace ddp::launcher

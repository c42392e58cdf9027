#include "stack_reader/unwinder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "stack_reader/frame_names.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace ddp::stack_reader;

#ifdef __x86_64__

[[gnu::noinline]] void waits_for_ever() {
  for (;;) ::pause();
}
// This function is compiled without optimisation and needs its frame pointer, which is not known.
[[gnu::noinline]] void calls_what_waits(int deep) {
  deep > 0 ? calls_what_waits(deep - 1) : waits_for_ever();
  asm volatile("");
}

namespace {

StackCapture capture_of_child() {
  const pid_t child = ::fork();
  if (child == 0) calls_what_waits(2);
  StackCapture capture;
  do {
    capture = capture_stacks(child, 8);
  } while (capture.threads.empty() || capture.threads[0].runs);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return capture;
}

std::vector<std::string> names(const StackCapture& capture, const Unwound& unwound) {
  const ProcessFiles files(capture.maps);
  FrameNames frame_names;
  std::vector<std::string> result;
  for (const std::uint64_t address : unwound.addresses) {
    const std::string name = frame_names.name(files, address, !result.empty());
    result.push_back(name.substr(0, name.find('(')));
  }
  return result;
}

}  // namespace

TEST_CASE("the stack of a blocked system call is unwound from a copy for each compilation mode") {
  const StackCapture capture = capture_of_child();
  const ProcessFiles files(capture.maps);
  Unwinder unwinder(files);
  const Unwound unwound = unwinder.unwind(capture.threads.at(0), 64);
  CHECK(unwound.is_whole);
  const std::vector<std::string> found = names(capture, unwound);
  const auto waits = std::find(found.begin(), found.end(), "waits_for_ever");
  REQUIRE(found.end() - waits > 4);
  CHECK(std::vector(waits + 1, waits + 4) == std::vector<std::string>(3, "calls_what_waits"));
  CHECK(std::find(waits, found.end(), "main ") != found.end());
  // Only the inner part of a deep stack is requested.
  const Unwound part = unwinder.unwind(capture.threads.at(0), 3);
  CHECK(part.is_whole);
  CHECK(part.addresses == std::vector(unwound.addresses.begin(), unwound.addresses.begin() + 3));
}

TEST_CASE("a damaged stack is unwound as far as possible and marked as incomplete") {
  StackCapture capture = capture_of_child();
  ThreadCapture& thread = capture.threads.at(0);
  const ProcessFiles files(capture.maps);
  Unwinder unwinder(files);
  const std::size_t whole = unwinder.unwind(thread, 64).addresses.size();
  for (const std::size_t kept : {std::size_t{0}, std::size_t{8}, std::size_t{100}, thread.stack.size() / 4}) {
    ThreadCapture damaged = thread;
    damaged.stack.resize(kept);
    const Unwound unwound = unwinder.unwind(damaged, 64);
    CHECK_FALSE(unwound.is_whole);
    CHECK(unwound.addresses.size() < whole);
    REQUIRE_FALSE(unwound.addresses.empty());
    CHECK(unwound.addresses[0] == thread.registers.at(kProgramCounter));
  }
  thread.stack.assign(thread.stack.size(), '\x55');
  CHECK_FALSE(unwinder.unwind(thread, 64).is_whole);
}

TEST_CASE("without the files of a process only the innermost frame is known") {
  const StackCapture capture = capture_of_child();
  for (const char* maps : {"", "garbage", "00400000-00401000 r-xp 00000000 00:00 1 /no/such/file\n"}) {
    const ProcessFiles files(maps);
    Unwinder unwinder(files);
    const Unwound unwound = unwinder.unwind(capture.threads.at(0), 64);
    CHECK_FALSE(unwound.is_whole);
    CHECK(unwound.addresses == std::vector{capture.threads[0].registers.at(kProgramCounter)});
  }
  const ProcessFiles files(capture.maps);
  CHECK(Unwinder(files).unwind({}, 64).addresses.empty());
}

#endif

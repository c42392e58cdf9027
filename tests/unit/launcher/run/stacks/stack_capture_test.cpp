#include "launcher/run/stacks/stack_capture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("the kernel's text about a waiting thread gives its stack pointer and place") {
  const auto waits = parse_thread_place("7 0x7ffd 0x1 0x2710 0x0 0x0 0x0 0x7ffd10d0 0x7f35c0fc26f\n");
  REQUIRE(waits);
  CHECK_FALSE(waits->runs);
  CHECK(waits->registers.at(kStackPointer) == 0x7ffd10d0);
  CHECK(waits->registers.at(kProgramCounter) == 0x7f35c0fc26f);
  const auto outside = parse_thread_place("-1 0x7ffd10d0 0x401000");
  REQUIRE(outside);
  CHECK(outside->registers.at(kProgramCounter) == 0x401000);
  REQUIRE(parse_thread_place("running\n"));
  CHECK(parse_thread_place("running\n")->runs);
  for (const char* text : {"", "7", "7 0x1", "7 1 2", "-1 0x1 0x", "-1 0x1 0xzz", "-1 0x1 0x11111111111111111"}) {
    CHECK_FALSE(parse_thread_place(text));
  }
}

TEST_CASE("a stack copy is unchanged after its transfer, and other text is rejected") {
  StackCapture capture{17, "path that is \xff no UTF-8", {}, ""};
  capture.threads.push_back(
      {17, false, {{kStackPointer, ~std::uint64_t{0}}, {kProgramCounter, 2}}, std::string("\0\xff", 2)});
  capture.threads.push_back({18, true, {}, ""});
  const std::string bytes = to_bytes(std::vector<StackCapture>{capture, {8, "maps", {{9, false, {}, "", {1, 2}}}, ""}});
  const auto read = captures_from_bytes(bytes);
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  CHECK(read->at(0) == capture);
  CHECK(read->at(1).threads.at(0).addresses == std::vector<std::uint64_t>{1, 2});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK_FALSE(captures_from_bytes(bytes.substr(0, length)));
  CHECK_FALSE(captures_from_bytes("\xa1\x63pid\x01"));  // {"pid": 1}
  CHECK_FALSE(captures_from_bytes("\x81\x01"));         // [1]
}

TEST_CASE("copying a stack stops at the end of the mapped memory") {
  const std::uint64_t word = 0x1234'5678'9abc'def0;
  const auto here = reinterpret_cast<std::uint64_t>(&word);
  const std::string copy = copy_stack(::getpid(), here, 64);
  REQUIRE(copy.size() == 64);
  CHECK(copy.starts_with("\xf0\xde\xbc\x9a"));
  CHECK(copy_stack(::getpid(), here, std::size_t{1} << 24).size() < std::size_t{1}
                                                                        << 24);  // no memory is mapped beyond it
  CHECK(copy_stack(::getpid(), 8, 64).empty());
}

#ifdef __x86_64__
TEST_CASE("the stacks of a waiting and of a running child are copied") {
  const pid_t waits = ::fork();
  if (waits == 0) {
    for (;;) ::pause();
  }
  const pid_t runs = ::fork();
  if (runs == 0) {
    for (volatile int i = 0;;) i = i + 1;
  }
  StackCapture of_waiting;
  do {
    of_waiting = capture_stacks(waits, 8);
  } while (of_waiting.threads.empty() || of_waiting.threads[0].runs);  // the thread takes a moment to get there
  CHECK(of_waiting.obstacle.empty());
  CHECK(of_waiting.threads[0].tid == waits);
  CHECK(of_waiting.threads[0].stack.size() > 100);
  CHECK(of_waiting.maps.find("[stack]") != std::string::npos);
  StackCapture of_running;
  do {
    of_running = capture_stacks(runs, 8);
  } while (of_running.threads.empty() || !of_running.threads[0].runs);
  CHECK(of_running.obstacle.empty());
  for (const pid_t child : {waits, runs}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  CHECK(capture_stacks(waits, 8).obstacle == "it has exited");
}
#endif

#include "base/signals.h"

#include <csignal>

#include "support/catch.h"

using ddp::base::signal_name;

TEST_CASE("a signal number is printed as its usual name") {
  CHECK(signal_name(SIGSEGV) == "SIGSEGV");
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(SIGTERM) == "SIGTERM");
}

TEST_CASE("a real-time signal is printed relative to SIGRTMIN") {
  CHECK(signal_name(SIGRTMIN) == "SIGRTMIN+0");
  CHECK(signal_name(SIGRTMIN + 3) == "SIGRTMIN+3");
}

TEST_CASE("a signal without a name is printed as its number") {
  CHECK(signal_name(99) == "signal 99");
  CHECK(signal_name(-1) == "signal -1");
}

#include "launcher/see/report/event_text.h"

#include <csignal>
#include <string>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;

namespace {

std::string text(const Event& event) {
  const auto line = event_text(event, 4);
  if (!line) return "";
  CHECK(line->level == LogLevel::debug);
  return std::string(kLogSourceNames[static_cast<std::size_t>(line->source)]) + ": " + line->text;
}

}  // namespace

TEST_CASE("events are shown with their rank in the job and their kind") {
  CHECK(text(WorkerStarted{1, 77}) == "workers: rank 5 started: pid 77");
  WorkerEnd end{0, ExitStatus::killed(SIGSEGV), std::nullopt, 3 << 20, std::nullopt, std::nullopt};
  CHECK(text(end) == "workers: rank 4 terminated: killed by SIGSEGV, peak memory 3 MiB");
  CHECK(text(SignalArrived{SIGTERM}) == "signals: ddplaunch received SIGTERM");
  CHECK(text(SignalArrived{SIGHUP, "the connection is lost"}) ==
        "signals: ddplaunch received SIGHUP: the connection is lost");
  CHECK(text(SignalRefused{2}) == "signals: the kernel does not let the launcher signal rank 6");
  CHECK(text(EndedElsewhere{{.text = "rank 0: exit code 3", .node = "b"}}) ==
        "job: the attempt ends: node b: rank 0: exit code 3");
}

TEST_CASE("events that are reported elsewhere have no text") {
  CHECK(text(AlarmRang{}).empty());
  CHECK(text(HangNews{}).empty());
}

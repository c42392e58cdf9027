#include "launcher/run/ranks/rank_probe.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/ring_writer.h"

using namespace ddp::launcher;

namespace {

constexpr pid_t kNoProcess = 1 << 30;

void write(RankProbe& probe, std::uint32_t number) {
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  ddp::test::RingWriter(probe.descriptors(0).ring)
      .write(ddp::wire::RecordKind::step, number, static_cast<std::uint64_t>(now), static_cast<std::uint64_t>(now));
}

ddp::wire::StatusPageLayout& page_of(RankProbe& probe, int local_rank) {
  const int page = probe.descriptors(local_rank).page;
  return *static_cast<ddp::wire::StatusPageLayout*>(
      ::mmap(nullptr, sizeof(ddp::wire::StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0));
}

std::atomic<bool> may_handlers_return = false;

void wait_in_handler(int) {
  while (!may_handlers_return) {
  }
}

void return_from_handler(int) {}

}  // namespace

TEST_CASE("a worker's records can be taken while it runs and after its exit") {
  RankProbe probe;
  const WorkerDescriptors inherited = probe.open(0, {.rank = 3});
  CHECK(ddp::test::RingWriter(inherited.ring).ring->mode == ddp::wire::RecordMode::steps);
  probe.started(0, kNoProcess);
  write(probe, 1);
  CHECK(probe.take_records(0).records.size() == 1);
  write(probe, 2);
  probe.discard_records(0);
  write(probe, 3);
  probe.ended(0);
  write(probe, 4);
  const RankRecords rest = probe.take_records(0);
  CHECK(rest.rank == 3);
  REQUIRE(rest.records.size() == 2);
  CHECK(rest.records[0].number == 3);
  CHECK(rest.records[1].number == 4);
  CHECK(probe.take_records(7).records.empty());
}

TEST_CASE("RankProbe shows a worker from its start, beyond its exit, until its local rank is opened again") {
  RankProbe probe;
  RankView view;
  probe.open(0, {.rank = 3});
  CHECK(!probe.sample(0, SampleDepth::all, view));
  probe.started(0, kNoProcess);
  CHECK(probe.sample(0, SampleDepth::pages, view));
  CHECK(view.rank == 3);
  CHECK(view.pid == kNoProcess);
  const std::uint64_t seen_at = view.seen_at;
  CHECK(!probe.sample(0, SampleDepth::pages, view));
  CHECK(view.seen_at > seen_at);  // others may have called meanwhile, and this rank has not
  probe.ended(0);
  CHECK(probe.sample(0, SampleDepth::pages, view));
  CHECK(view.has_ended);
  CHECK(probe.ask_for_stacks(0, StackMeans::any).obstacle == "it has exited");
  probe.open(0, {.rank = 5});
  CHECK(!probe.sample(0, SampleDepth::pages, view));
  CHECK(probe.descriptors(0).page == -1);
}

TEST_CASE("a lost peer and a request to stop are shown only to running workers") {
  RankProbe probe;
  probe.open(0, {.rank = 0});
  probe.started(0, kNoProcess);
  probe.open(1, {.rank = 1});
  probe.started(1, kNoProcess);
  probe.ended(1);
  probe.mark_peer_lost(1);
  probe.request_stop();
  CHECK(page_of(probe, 0).lost_rank == 1);
  CHECK(page_of(probe, 0).stop_request == 1);
  CHECK(page_of(probe, 1).lost_rank == ddp::wire::kNoRankLost);
  CHECK(page_of(probe, 1).stop_request == 0);
}

// A handler that runs blocks its own signal, so its thread looks as if it could not answer.
TEST_CASE("every thread whose signal handler runs is expected to answer") {
  constexpr int kThreads = 8;
  RankProbe probe;
  probe.open(0, {.rank = 0});
  probe.started(0, ::getpid());
  const int signal = SIGRTMIN + 5;
  struct sigaction action {};
  action.sa_handler = wait_in_handler;
  ::sigaction(signal, &action, nullptr);
  ddp::wire::StatusPageLayout& page = page_of(probe, 0);
  page.writer = ::getpid();
  page.stacks.signal = signal;
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, signal);
  std::vector<std::jthread> threads;
  std::latch have_begun(kThreads);  // a thread blocks all signals until it has begun
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      have_begun.count_down();
      while (!may_handlers_return) {
      }
    });
  }
  // The thread of the test blocks the signal, so it is not expected to answer.
  ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);
  have_begun.wait();
  const StackRequest request = probe.ask_for_stacks(0, StackMeans::any);
  CHECK(request.threads.size() == kThreads + 1);
  CHECK(request.answers == kThreads);
  may_handlers_return = true;
  threads.clear();
  action.sa_handler = return_from_handler;
  ::sigaction(signal, &action, nullptr);
  ::pthread_sigmask(SIG_UNBLOCK, &asked, nullptr);
}

#include "launcher/ranks/rank_probe.h"

#include <sys/mman.h>

#include <chrono>

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

const ddp::wire::StatusPageLayout& page_of(RankProbe& probe, int local_rank) {
  const int page = probe.descriptors(local_rank).page;
  return *static_cast<const ddp::wire::StatusPageLayout*>(
      ::mmap(nullptr, sizeof(ddp::wire::StatusPageLayout), PROT_READ, MAP_SHARED, page, 0));
}

}  // namespace

TEST_CASE("records of a worker can be taken while it runs and after its end") {
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

TEST_CASE("a worker is seen from its start until the next one of its local rank is opened") {
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

TEST_CASE("a lost peer and a request to stop are shown to running workers only") {
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

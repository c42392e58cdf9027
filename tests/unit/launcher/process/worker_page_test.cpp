#include "launcher/process/worker_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/catch.h"

using ddp::launcher::WorkerPage;
using ddp::wire::StatusPageLayout;

namespace {

const StatusPageLayout& mapped(const WorkerPage& page) {
  return *static_cast<StatusPageLayout*>(
      ::mmap(nullptr, sizeof(StatusPageLayout), PROT_READ, MAP_SHARED, page.descriptor(), 0));
}

}  // namespace

TEST_CASE("a page says whose it is and that nobody is lost") {
  const WorkerPage page(7, 3, 2);
  const StatusPageLayout& seen = mapped(page);
  CHECK(seen.magic == ddp::wire::kPageMagic);
  CHECK(seen.version == ddp::wire::kPageVersion);
  CHECK(seen.bytes == sizeof(StatusPageLayout));
  CHECK(seen.rank == 7);
  CHECK(seen.local_rank == 3);
  CHECK(seen.attempt == 2);
  CHECK(seen.lost_rank == ddp::wire::kNoRankLost);
  CHECK(seen.writer == 0);
}

TEST_CASE("the first lost rank stays on the page") {
  const WorkerPage page(0, 0, 0);
  page.mark_peer_lost(4);
  page.mark_peer_lost(5);
  CHECK(mapped(page).lost_rank == 4);
}

TEST_CASE("a worker cannot take the page's memory away") {
  const WorkerPage page(0, 0, 0);
  CHECK(::ftruncate(page.descriptor(), 0) != 0);
}

TEST_CASE("a page that moves stays one") {
  WorkerPage first(1, 1, 0);
  const int descriptor = first.descriptor();
  WorkerPage second = std::move(first);
  CHECK(second.descriptor() == descriptor);
  WorkerPage none;
  none.mark_peer_lost(1);
  CHECK(none.descriptor() == -1);
}

// Tests that what bindings/c/ddp_page.h writes on a page is what wire/status_page_layout.h reads there.
#include <ddp/progress.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "../../../bindings/c/ddp_page.h"
#include "support/catch.h"
#include "wire/status_page_layout.h"
#include "wire/worker_env.h"

using namespace ddp::wire;

namespace {

static_assert(kPhaseNames.size() == DDP_PHASE_DONE + 1);

// Offers a page as the launcher makes it and a worker finds it.
class OfferedPage {
 public:
  OfferedPage() : descriptor_(::memfd_create("page", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(descriptor_, sizeof(StatusPageLayout)) == 0);
    memory_ = ::mmap(nullptr, sizeof(StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    REQUIRE(memory_ != MAP_FAILED);
    page().magic = kPageMagic;
    page().version = kPageVersion;
    ::setenv(env::kStatusPage, std::to_string(descriptor_).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~OfferedPage() {
    ::unsetenv(env::kStatusPage);  // NOLINT(concurrency-mt-unsafe)
    ::munmap(memory_, sizeof(StatusPageLayout));
    ::close(descriptor_);
  }
  OfferedPage(const OfferedPage&) = delete;
  OfferedPage& operator=(const OfferedPage&) = delete;

  StatusPageLayout& page() { return *static_cast<StatusPageLayout*>(memory_); }

 private:
  int descriptor_;
  void* memory_ = nullptr;
};

struct Unmap {
  void operator()(ddp_page* page) const { ::munmap(page, sizeof(StatusPageLayout)); }
};

}  // namespace

TEST_CASE("the launcher reads the page that C code writes") {
  OfferedPage offered;
  const std::unique_ptr<ddp_page, Unmap> mapped(ddp_page_open());
  ddp_page* page = mapped.get();
  REQUIRE(page != nullptr);
  PageWorker& worker = offered.page().worker;
  CHECK(offered.page().writer == ::getpid());

  ddp_heartbeat(page);
  ddp_heartbeat(page);
  CHECK(worker.steps == 2);
  ddp_progress_at(page, 1200, 10000);
  CHECK(offered.page().progress_done == 1200);
  CHECK(offered.page().progress_total == 10000);
  CHECK(offered.page().other_progress == 1);
  CHECK(ddp_should_stop(page) == 0);
  offered.page().stop_request = 1;
  CHECK(ddp_should_stop(page) == 1);
  const std::uint64_t before = ddp_page_now();
  ddp_extend(page, 10);
  ddp_extend(page, 5);
  CHECK(worker.more_time_until >= before + 10'000'000'000);
  CHECK(worker.more_time_until <= ddp_page_now() + 10'000'000'000);
  ddp_phase(page, DDP_PHASE_CHECKPOINT, "weights", "train.c", 12);
  CHECK(worker.changes == 2);
  CHECK(worker.phase == static_cast<std::uint32_t>(ddp::Phase::checkpoint));
  CHECK(worker.since >= before);
  CHECK(worker.line == 12);
  CHECK(std::string(worker.name.data()) == "weights");
  CHECK(std::string(worker.file.data()) == "train.c");

  // The texts are cut, with the 0 at the end. The previous content is gone.
  const std::string name(100, 'n');
  const std::string file = std::string(100, 'd') + "/train.c";
  ddp_phase(page, DDP_PHASE_TRAINING, name.c_str(), file.c_str(), 1);
  CHECK(std::string(worker.name.data()) == name.substr(0, sizeof(worker.name) - 1));
  CHECK(std::string(worker.file.data()) == file.substr(file.size() - (sizeof(worker.file) - 1)));
  ddp_phase(page, DDP_PHASE_DONE, nullptr, nullptr, 0);
  CHECK(worker.name == decltype(worker.name){});
  CHECK(worker.file == decltype(worker.file){});
  CHECK(worker.changes == 6);
}

TEST_CASE("C code leaves the page of another process alone and works without a page") {
  OfferedPage offered;
  offered.page().writer = ::getpid() + 1;
  CHECK(ddp_page_open() == nullptr);
  CHECK(offered.page().writer == ::getpid() + 1);
  ddp_heartbeat(nullptr);
  ddp_extend(nullptr, 1);
  CHECK(ddp_should_stop(nullptr) == 0);
  DDP_PHASE(nullptr, DDP_PHASE_TRAINING, "");
  CHECK(offered.page().worker.steps == 0);
}

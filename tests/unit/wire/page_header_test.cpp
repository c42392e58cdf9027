// Tests that bindings/c/ddp_page.h describes the same page as wire/status_page_layout.h.
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

static_assert(DDP_PAGE_MAGIC == kPageMagic);
static_assert(DDP_PAGE_VERSION == kPageVersion);
static_assert(DDP_PAGE_BYTES == sizeof(StatusPageLayout));
static_assert(DDP_PAGE_GROUPS == kPageGroups);
static_assert(DDP_GROUP_CALLS == kPageCalls);
static_assert(DDP_PAGE_NO_RANK_LOST == kNoRankLost);
static_assert(DDP_PAGE_VARIABLE == std::string_view(env::kStatusPage));

static_assert(DDP_PAGE_AT_MAGIC == offsetof(StatusPageLayout, magic));
static_assert(DDP_PAGE_AT_VERSION == offsetof(StatusPageLayout, version));
static_assert(DDP_PAGE_AT_BYTES == offsetof(StatusPageLayout, bytes));
static_assert(DDP_PAGE_AT_RANK == offsetof(StatusPageLayout, rank));
static_assert(DDP_PAGE_AT_LOCAL_RANK == offsetof(StatusPageLayout, local_rank));
static_assert(DDP_PAGE_AT_ATTEMPT == offsetof(StatusPageLayout, attempt));
static_assert(DDP_PAGE_AT_LOST_RANK == offsetof(StatusPageLayout, lost_rank));
static_assert(DDP_PAGE_AT_WRITER == offsetof(StatusPageLayout, writer));
static_assert(DDP_PAGE_AT_GROUPS_NOT_SHOWN == offsetof(StatusPageLayout, groups_not_shown));
static_assert(DDP_PAGE_AT_PLACES == offsetof(StatusPageLayout, places));
static_assert(DDP_PAGE_AT_WORKER == offsetof(StatusPageLayout, worker));
static_assert(DDP_PAGE_AT_GROUPS == offsetof(StatusPageLayout, groups));

static_assert(DDP_WORKER_BYTES == sizeof(PageWorker));
static_assert(DDP_WORKER_AT_CHANGES == offsetof(PageWorker, changes));
static_assert(DDP_WORKER_AT_PHASE == offsetof(PageWorker, phase));
static_assert(DDP_WORKER_AT_SINCE == offsetof(PageWorker, since));
static_assert(DDP_WORKER_AT_LINE == offsetof(PageWorker, line));
static_assert(DDP_WORKER_AT_STEPS == offsetof(PageWorker, steps));
static_assert(DDP_WORKER_AT_MORE_TIME_UNTIL == offsetof(PageWorker, more_time_until));
static_assert(DDP_WORKER_AT_NAME == offsetof(PageWorker, name));
static_assert(DDP_WORKER_NAME_BYTES == sizeof(PageWorker::name));
static_assert(DDP_WORKER_AT_FILE == offsetof(PageWorker, file));
static_assert(DDP_WORKER_FILE_BYTES == sizeof(PageWorker::file));

static_assert(DDP_GROUP_BYTES == sizeof(PageGroup));
static_assert(DDP_GROUP_AT_IN_USE == offsetof(PageGroup, in_use));
static_assert(DDP_GROUP_AT_RANK == offsetof(PageGroup, rank));
static_assert(DDP_GROUP_AT_SIZE == offsetof(PageGroup, size));
static_assert(DDP_GROUP_AT_NAME == offsetof(PageGroup, name));
static_assert(DDP_GROUP_NAME_BYTES == sizeof(PageGroup::name));
static_assert(DDP_GROUP_AT_CALLED == offsetof(PageGroup, called));
static_assert(DDP_GROUP_AT_STARTED == offsetof(PageGroup, started));
static_assert(DDP_GROUP_AT_FINISHED == offsetof(PageGroup, finished));
static_assert(DDP_GROUP_AT_TRANSFERS_CALLED == offsetof(PageGroup, transfers_called));
static_assert(DDP_GROUP_AT_TRANSFERS_FINISHED == offsetof(PageGroup, transfers_finished));
static_assert(DDP_GROUP_AT_GPU_QUEUED == offsetof(PageGroup, gpu_queued));
static_assert(DDP_GROUP_AT_GPU_STARTED == offsetof(PageGroup, gpu_started));
static_assert(DDP_GROUP_AT_GPU_FINISHED == offsetof(PageGroup, gpu_finished));
static_assert(DDP_GROUP_AT_CALLS == offsetof(PageGroup, calls));

static_assert(DDP_CALL_BYTES == sizeof(PageCall));
static_assert(DDP_CALL_AT_SEQUENCE == offsetof(PageCall, sequence));
static_assert(DDP_CALL_AT_FINGERPRINT == offsetof(PageCall, fingerprint));
static_assert(DDP_CALL_AT_CALLED_AT == offsetof(PageCall, called_at));
static_assert(DDP_CALL_AT_COUNT == offsetof(PageCall, count));
static_assert(DDP_CALL_AT_PEER == offsetof(PageCall, peer));
static_assert(DDP_CALL_AT_LINE == offsetof(PageCall, line));
static_assert(DDP_CALL_AT_OPERATION == offsetof(PageCall, operation));
static_assert(DDP_CALL_AT_TYPE == offsetof(PageCall, type));
static_assert(DDP_CALL_AT_OP == offsetof(PageCall, op));
static_assert(DDP_CALL_AT_NAME == offsetof(PageCall, name));
static_assert(DDP_CALL_NAME_BYTES == sizeof(PageCall::name));
static_assert(DDP_CALL_AT_FILE == offsetof(PageCall, file));
static_assert(DDP_CALL_FILE_BYTES == sizeof(PageCall::file));

namespace {

constexpr bool is_same(ddp_page_phase theirs, ddp::Phase ours) {
  return static_cast<std::uint32_t>(theirs) == static_cast<std::uint32_t>(ours);
}

static_assert(is_same(DDP_PHASE_STARTING, ddp::Phase::starting));
static_assert(is_same(DDP_PHASE_CONNECTED, ddp::Phase::connected));
static_assert(is_same(DDP_PHASE_RENDEZVOUS, ddp::Phase::rendezvous));
static_assert(is_same(DDP_PHASE_COMMUNICATOR, ddp::Phase::communicator));
static_assert(is_same(DDP_PHASE_TRAINING, ddp::Phase::training));
static_assert(is_same(DDP_PHASE_EVALUATION, ddp::Phase::evaluation));
static_assert(is_same(DDP_PHASE_CHECKPOINT, ddp::Phase::checkpoint));
static_assert(is_same(DDP_PHASE_DATA_LOADING, ddp::Phase::data_loading));
static_assert(is_same(DDP_PHASE_FINISHING, ddp::Phase::finishing));
static_assert(is_same(DDP_PHASE_DONE, ddp::Phase::done));
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

TEST_CASE("what C writes on the page is what the launcher reads") {
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

TEST_CASE("a page of another process, and none, are left alone in C") {
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

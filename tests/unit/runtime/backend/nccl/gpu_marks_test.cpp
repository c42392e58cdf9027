#include "runtime/backend/nccl/gpu_marks.h"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "runtime/call/call.h"
#include "support/catch.h"
#include "support/gpu_ranks.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Makes a page like that of a worker. It stays mapped until the process ends, because the driver keeps its registration
// until then: it would refuse a later page that overlaps the freed memory.
wire::StatusPageLayout* make_page() {
  void* memory =
      ::mmap(nullptr, sizeof(wire::StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no memory can be mapped");
  return new (memory) wire::StatusPageLayout();
}

// Holds a page, and a stream of GPU 0.
struct Marked {
  CudaApi cuda = gpu_libraries()->cuda;
  CudaEvents events{cuda};
  wire::StatusPageLayout* const page = make_page();
  wire::PageGroup& place = page->groups[3];
  std::optional<CudaStream> stream;

  Marked() {
    cuda.set_device(0);
    stream.emplace(cuda);
  }
  void mark(GpuMarks& marks, std::uint64_t number) {
    marks.queue(number);
    const CudaEventHandle done = events.record(stream->handle());
    marks.mark(number, {}, done);
    events.put_back(done);
  }
};

}  // namespace

TEST_CASE("the GPU itself writes which collectives it has begun and finished") {
  Marked on;
  CudaStream program(on.cuda);
  GpuMarks marks(on.cuda, *on.page, on.place);
  HeldStream computes(program.handle());
  HeldStream collective(on.stream->handle());
  const CudaEventHandle ready[] = {on.events.record(program.handle())};
  const CudaEventHandle done = on.events.record(on.stream->handle());
  marks.queue(7);
  marks.mark(7, ready, done);
  CHECK(on.place.gpu_queued == 7);
  CHECK(on.place.gpu_started == 0);
  computes.release();
  CHECK(eventually([&] { return on.place.gpu_started == 7; }));
  CHECK(on.place.gpu_finished == 0);
  collective.release();
  CHECK(eventually([&] { return on.place.gpu_finished == 7; }));
  CHECK(on.place.called == 0);
  on.events.put_back(ready[0]);
  on.events.put_back(done);
  // Another group of the process uses the same page.
  GpuMarks others(on.cuda, *on.page, on.page->groups[4]);
  on.mark(others, 2);
  CHECK(eventually([&] { return on.page->groups[4].gpu_finished == 2; }));
}

TEST_CASE("the runtime's internal collectives are not marked") {
  Marked on;
  GpuMarks marks(on.cuda, *on.page, on.place);
  on.mark(marks, 0);
  on.mark(marks, 5 | kOwnCalls);
  CHECK(on.place.gpu_queued == 0);
  CHECK(on.place.gpu_finished == 0);
}

TEST_CASE("no marks are written if the GPU cannot access the page or the driver cannot write values") {
  Marked on;
  CudaApi blind = on.cuda;
  replace(blind.register_host, [](void*, std::size_t, unsigned) { return 801; });
  GpuMarks not_mapped(blind, *on.page, on.place);
  on.mark(not_mapped, 7);
  CudaApi old = on.cuda;
  old.write_number = nullptr;
  GpuMarks not_written(old, *on.page, on.place);
  on.mark(not_written, 7);
  CHECK(on.place.gpu_queued == 0);
  CHECK(on.place.gpu_started == 0);
}

TEST_CASE("a stream that rejects a mark is not tried again and gives no error") {
  Marked on;
  int asked = 0;
  CudaApi failing = on.cuda;
  replace(failing.write_number, [&](CudaStreamHandle stream, void* place, std::uint64_t number, unsigned flags) {
    return ++asked > 2 ? 801 : on.cuda.write_number(stream, place, number, flags);
  });
  GpuMarks marks(failing, *on.page, on.place);
  on.mark(marks, 1);
  CHECK(on.place.gpu_queued == 1);
  on.mark(marks, 2);
  on.mark(marks, 3);
  CHECK(asked == 3);
  CHECK(on.place.gpu_queued == 0);
}

TEST_CASE("a collective that waits for a rank has begun but not finished on the other GPUs") {
  wire::StatusPageLayout* const page = make_page();
  const Libraries libraries = gpu_libraries();
  const auto make = [&](const BackendOptions& options,
                        const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
    auto backend = std::make_unique<NcclBackend>(options, store, libraries);
    backend->mark_on(*page, page->groups[static_cast<std::size_t>(options.rank)]);
    return backend;
  };
  const wire::PageGroup& place_0 = page->groups[0];
  const auto until = [](const auto& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    require(condition(), "it has not come to that");
  };
  RankThreads(make, 2, kPatience).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    self.group().all_reduce(values.memory, ReduceOp::average).wait();  // this is #1
    if (self.rank() == 1) until([&] { return place_0.gpu_started == 2; });
    require(place_0.gpu_finished <= 1, "the GPU has finished what no rank has called");
    ProgramStream stream(self.group());
    Work work =
        self.group().all_reduce(values.memory, ReduceOp::average, {.stream = Stream::from_handle(stream.handle())});
    require(work.wait_for(kPatience), "it is not done");
    const wire::PageGroup& own = page->groups[static_cast<std::size_t>(self.rank())];
    require(own.gpu_queued == 2, "queued: " + std::to_string(own.gpu_queued));
    until([&] { return own.gpu_finished == 2; });
  });
}

TEST_CASE("the host sees when a collective begins and ends on the GPU") {
  wire::StatusPageLayout* const page = make_page();
  std::atomic<int> queries = 0;  // at rank 0's events
  const auto make = [&](const BackendOptions& options,
                        const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
    const auto libraries = gpu_libraries();
    if (options.rank == 0) {
      replace(libraries->cuda.query_event, [&, query = libraries->cuda.query_event](CudaEventHandle event) {
        ++queries;
        return query(event);
      });
    }
    auto backend = std::make_unique<NcclBackend>(options, store, libraries);
    backend->mark_on(*page, page->groups[static_cast<std::size_t>(options.rank)]);
    return backend;
  };
  RankThreads(make, 2, kPatience).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    Call call;
    require(!self.group().core().backend().gpu_span(call), "nothing has run");
    self.group().all_reduce(values.memory, ReduceOp::average).wait();  // this is #1
    if (self.rank() == 1) {
      // Rank 0 looks once at least after its GPU has begun, and once before it is done.
      require(eventually([&] { return page->groups[0].gpu_started == 2; }), "it has not begun");
      require(eventually([&, until = queries + 3] { return queries >= until; }), "rank 0 does not look");
    }
    const auto called = std::chrono::steady_clock::now();
    self.group().all_reduce(values.memory, ReduceOp::average).wait();
    if (self.rank() == 1) return;
    const auto span = self.group().core().backend().gpu_span(call);
    require(span.has_value(), "the host has seen nothing");
    require(called <= span->begin && span->begin < span->end, "the times are wrong");
    require(span->end <= std::chrono::steady_clock::now(), "the end is wrong");
    call.operation = Operation::send;
    require(!self.group().core().backend().gpu_span(call), "transfers are not seen");
  });
}

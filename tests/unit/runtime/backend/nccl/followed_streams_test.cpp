#include "runtime/backend/nccl/followed_streams.h"

#include <ddp/error.h>

#include <optional>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/gpu_libraries.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

struct Followed {
  CudaApi cuda = gpu_libraries()->cuda;
  std::optional<CudaEvents> events;
  std::optional<CudaStream> stream;
  std::optional<FollowedStreams> streams;

  Followed() {
    cuda.set_device(0);
    events.emplace(cuda);
    stream.emplace(cuda);
    streams.emplace(cuda, *events);
    streams->follow(stream->handle());
  }
  bool becomes_done(StreamWork& work) {
    return eventually([&] { return streams->is_done(work); });
  }
};

}  // namespace

TEST_CASE("the work of a forgotten stream counts until it is done, and its handle is not reused") {
  Followed on;
  HeldStream held(on.stream->handle());
  const auto mark = on.streams->forget(on.stream->handle());
  REQUIRE((mark && *mark != nullptr));
  CHECK_FALSE(on.streams->follows(on.stream->handle()));
  on.stream.reset();
  StreamWork work = on.streams->work();
  CHECK(work.marks.size() == 1);
  CHECK(work.unmarked.empty());
  CHECK_FALSE(on.streams->is_done(work));
  held.release();
  CHECK(on.becomes_done(work));
  CHECK(on.streams->work().marks.empty());
}

TEST_CASE("work on a capturing stream is marked when the capture ends") {
  Followed on;
  REQUIRE(gpu_function<int(void*, int)>("cuStreamBeginCapture_v2")(on.stream->handle(), 0) == kCudaSuccess);
  StreamWork work = on.streams->work();
  CHECK(work.unmarked.size() == 1);
  CHECK_FALSE(on.streams->forget(on.stream->handle()));
  CHECK(on.streams->follows(on.stream->handle()));
  void* graph = nullptr;
  CHECK(gpu_function<int(void*, void**)>("cuStreamEndCapture")(on.stream->handle(), &graph) == kCudaSuccess);
  SECTION("by itself") {
    CHECK(on.becomes_done(work));
  }
  SECTION("when the stream is forgotten") {
    work.end(on.stream->handle(), on.streams->forget(on.stream->handle()).value());
    on.stream.reset();
    CHECK(work.marks.size() == 1);
    CHECK(on.becomes_done(work));
  }
}

TEST_CASE("the default stream is queried again if another stream's capture prevented the query") {
  Followed on;
  void* blocking = nullptr;
  REQUIRE(gpu_function<int(void**, unsigned)>("cuStreamCreate")(&blocking, 0) == kCudaSuccess);
  REQUIRE(gpu_function<int(void*, int)>("cuStreamBeginCapture_v2")(blocking, 0) == kCudaSuccess);
  StreamWork work = on.streams->work({nullptr});
  CHECK(work.unmarked == std::vector<CudaStreamHandle>{nullptr});
  void* graph = nullptr;
  CHECK(gpu_function<int(void*, void**)>("cuStreamEndCapture")(blocking, &graph) == kCudaSuccess);
  CHECK(on.becomes_done(work));
  on.cuda.destroy_stream(blocking);
}

TEST_CASE("a stream that CUDA no longer knows is dropped") {
  Followed on;
  const CudaStatus status = GENERATE(kCudaInvalidValue, kCudaInvalidHandle, kCudaContextIsDestroyed);
  replace(on.cuda.get_capture_status, [status](CudaStreamHandle, int&) { return status; });
  SECTION("when its work is asked for") {
    StreamWork work = on.streams->work();
    CHECK(on.streams->is_done(work));
  }
  SECTION("when it is forgotten") {
    CHECK(on.streams->forget(on.stream->handle()).value() == nullptr);
  }
  CHECK_FALSE(on.streams->follows(on.stream->handle()));
}

TEST_CASE("an error of the GPU does not count as idle") {
  Followed on;
  replace(on.cuda.get_capture_status, [](CudaStreamHandle, int&) { return 719; });
  CHECK_THROWS_AS(on.streams->work(), Error);
  CHECK_THROWS_AS(on.streams->forget(on.stream->handle()), Error);
  CHECK(on.streams->follows(on.stream->handle()));
}

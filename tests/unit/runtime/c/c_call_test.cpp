#include "runtime/c/c_call.h"

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "runtime/limits.h"
#include "support/c_ranks.h"
#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("numbers outside of an enumeration are rejected with the valid values") {
  CHECK(type_of("f", DDP_TYPE_BF16) == DataType::bf16);
  CHECK(device_of("f", DDP_DEVICE_CUDA) == DeviceType::cuda);
  for (const std::int32_t wrong : {-1, 10, 1000}) {
    expect_error(ErrorKind::invalid_argument, {"f: type " + std::to_string(wrong), "enum ddp_type", "0 to 9"},
                 [&] { type_of("f", wrong); });
    expect_error(ErrorKind::invalid_argument, {"f: device " + std::to_string(wrong), "enum ddp_device"},
                 [&] { device_of("f", wrong); });
  }
}

TEST_CASE("a timeout of 0 means the default, and a very long one is shortened") {
  CHECK_FALSE(timeout_of("f", 0));
  CHECK(timeout_of("f", 1500) == std::chrono::milliseconds(1500));
  CHECK(timeout_of("f", std::numeric_limits<std::int64_t>::max()) == limits::kNoTimeout);
  expect_error(ErrorKind::invalid_argument, {"timeout_ms is -1"}, [] { timeout_of("f", -1); });
}

TEST_CASE("options of a call reach the runtime") {
  const CWorldOfOne world;
  int stream = 0;
  ddp_call_options options = DDP_CALL_OPTIONS_INIT;
  options.timeout_ms = 2000;
  options.name = "bucket 3";
  options.stream = &stream;
  const CCall without_stream("f", world.group(), &options, nullptr);
  CHECK(without_stream.options().timeout == std::chrono::seconds(2));
  CHECK(without_stream.options().name == "bucket 3");
  CHECK_FALSE(without_stream.options().stream);
  options.has_stream = 1;
  options.device = DDP_DEVICE_CUDA;
  options.factor = 0.5;
  const CCall call("f", world.group(), &options, nullptr);
  CHECK(call.options().stream == Stream::from_handle(&stream));
  CHECK(call.output(&stream, 1, DDP_TYPE_I32).device == DeviceType::cuda);
  CHECK(call.reduction(DDP_OP_PREMULTIPLIED_SUM) == ReduceOp::premultiplied(0.5));
}

TEST_CASE("invalid arguments of a call are rejected") {
  const CWorldOfOne world;
  const CCall call("ddp_reduce", world.group(), nullptr, nullptr);
  float value = 0;
  const auto most = std::numeric_limits<std::int64_t>::max();
  expect_error(ErrorKind::invalid_argument, {"ddp_reduce", "-4", "negative"},
               [&] { call.output(&value, -4, DDP_TYPE_F32); });
  expect_error(ErrorKind::invalid_argument, {"more than fits into memory"},
               [&] { call.whole_input(&value, most / 2, DDP_TYPE_F32); });
  expect_error(ErrorKind::invalid_argument, {"op 9", "enum ddp_op", "0 to 8"}, [&] { call.reduction(9); });
  expect_error(ErrorKind::invalid_argument, {"op -1"}, [&] { call.reduction(-1); });
  expect_error(ErrorKind::invalid_argument, {"DDP_OP_PREMULTIPLIED_SUM needs ddp_call_options"},
               [&] { call.reduction(DDP_OP_PREMULTIPLIED_SUM); });
  expect_error(ErrorKind::invalid_argument, {"3 parts", "null pointer"},
               [&] { call.outputs(nullptr, 3, DDP_TYPE_F32); });
  expect_error(ErrorKind::invalid_argument, {"-1 parts"}, [&] { call.inputs(nullptr, -1, DDP_TYPE_F32); });
  CHECK(call.outputs(nullptr, 0, DDP_TYPE_F32).empty());
}

TEST_CASE("a source location applies to the next call only and outlives its text") {
  std::string file = "train.jl";
  ddp_called_from(file.c_str(), 88);
  file = "overwritten";
  const CallSite site = take_call_site();
  CHECK(std::string(site.file) == "train.jl");
  CHECK(site.line == 88);
  CHECK(take_call_site().line == 0);
  ddp_called_from("train.jl", 90);
  CHECK(take_call_site().file == site.file);
  ddp_called_from(nullptr, 5);
  CHECK(take_call_site().line == 0);
}

TEST_CASE("a rejected call uses up its source location") {
  ddp_called_from("wrong.c", 1);
  expect_error(ErrorKind::invalid_argument, {"the ddp_group is a null pointer"},
               [] { const CCall call("f", nullptr, nullptr, nullptr); });
  CHECK(take_call_site().line == 0);
}

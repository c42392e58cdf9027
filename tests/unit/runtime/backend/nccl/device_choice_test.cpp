#include "runtime/backend/nccl/device_choice.h"

#include <catch2/catch.hpp>

#include "support/fake_nccl.h"

using ddp::test::FakeNccl;

TEST_CASE("a machine without a gpu driver is an obstacle with cuda's name for it") {
  FakeNccl fake;
  fake.rank().device_count_status = 35;
  CHECK(ddp::probe_nccl(0, fake.cuda(), "node0", false).obstacle == "no NVIDIA GPU is visible here (cudaError35)");
}

TEST_CASE("no visible gpu is an obstacle") {
  FakeNccl fake;
  fake.rank().device_count = 0;
  CHECK(ddp::probe_nccl(0, fake.cuda(), "node0", false).obstacle == "no NVIDIA GPU is visible here");
}

TEST_CASE("a local rank beyond the visible gpus is an obstacle") {
  FakeNccl fake;
  fake.rank().device_count = 2;
  CHECK(ddp::probe_nccl(2, fake.cuda(), "node0", false).obstacle ==
        "there is no GPU for local rank 2: 2 are visible here");
}

TEST_CASE("a probe names the gpu so that two ranks with the same one are found") {
  FakeNccl fake;
  CHECK(ddp::probe_nccl(5, fake.cuda(), "node0", false).device == "node0/0000:00:00.0");
  fake.rank().device_count = 4;
  CHECK(ddp::probe_nccl(3, fake.cuda(), "node0", false).device == "node0/0000:03:00.0");
}

TEST_CASE("a probe names no gpu where ranks may share one") {
  FakeNccl fake;
  const ddp::ProbeResult result = ddp::probe_nccl(0, fake.cuda(), "node0", true);
  CHECK(result.obstacle.empty());
  CHECK(result.device.empty());
}

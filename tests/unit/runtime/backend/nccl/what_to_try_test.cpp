#include "runtime/backend/nccl/what_to_try.h"

#include "support/catch.h"

using Catch::Contains;
using ddp::internal::GpuSurroundings;
using ddp::internal::takes_host_memory_from_driver;
using ddp::internal::what_to_try;

TEST_CASE("ranks of one node get hints at peer-to-peer access first and at an enabled IOMMU") {
  GpuSurroundings here;
  here.shares_node = true;
  here.shm_free = std::uint64_t{8} << 30;
  CHECK_THAT(what_to_try(here), Contains("Try, one by one: NCCL_P2P_DISABLE=1"));
  CHECK_THAT(what_to_try(here), !Contains("which is on here") && !Contains("/dev/shm") && !Contains("SOCKET"));
  here.iommu = true;
  CHECK_THAT(what_to_try(here), Contains("IOMMU, which is on here,"));
}

TEST_CASE("settings that are already in place are not suggested") {
  GpuSurroundings here;
  here.shares_node = true;
  here.p2p_disabled = true;
  here.shm_disabled = true;
  here.has_substitute = true;
  CHECK(what_to_try(here) ==
        "No collective of this group has succeeded yet. Try, one by one: NCCL_DEBUG=INFO (NCCL logs what it does).");
}

TEST_CASE("a small /dev/shm is named with its free space") {
  GpuSurroundings here;
  here.shares_node = true;
  here.shm_free = std::uint64_t{12} << 20;
  CHECK_THAT(what_to_try(here), Contains("12 MiB are free here") && Contains("NCCL_SHM_DISABLE=1"));
}

TEST_CASE("the size of /dev/shm matters only if NCCL does not get host memory from the driver") {
  GpuSurroundings here;
  here.shares_node = true;
  here.host_memory_from_driver = true;
  here.shm_free = std::uint64_t{8} << 30;
  CHECK_THAT(what_to_try(here), Contains("NCCL_CUMEM_HOST_ENABLE=0 (NCCL gets host memory from the driver") &&
                                    Contains("--cap-add=SYS_NICE") && !Contains("/dev/shm"));
  here.shm_free = std::uint64_t{12} << 20;
  CHECK_THAT(what_to_try(here), Contains("with a larger /dev/shm, which NCCL then uses (12 MiB are free here)") &&
                                    !Contains("NCCL_SHM_DISABLE"));
  here.shm_disabled = true;
  CHECK_THAT(what_to_try(here), !Contains("NCCL_CUMEM_HOST_ENABLE"));
}

TEST_CASE("NCCL gets host memory from the driver from version 2.24 and CUDA 12.6 on unless variables disable it") {
  CHECK(takes_host_memory_from_driver(22400, 12060, "", ""));
  CHECK(takes_host_memory_from_driver(22809, 13000, "1", "1"));
  CHECK_FALSE(takes_host_memory_from_driver(22304, 12060, "", ""));
  CHECK_FALSE(takes_host_memory_from_driver(22400, 12050, "", ""));
  CHECK_FALSE(takes_host_memory_from_driver(22809, 13000, "0", ""));
  CHECK_FALSE(takes_host_memory_from_driver(22809, 13000, "", "0"));
  CHECK_FALSE(takes_host_memory_from_driver(22809, 0, "", "1"));  // the driver's version is unknown
  CHECK(takes_host_memory_from_driver(22304, 12020, "", "1"));
  CHECK_FALSE(takes_host_memory_from_driver(22203, 12060, "", "1"));
}

TEST_CASE("ranks of several nodes get hints at the network interface and at InfiniBand") {
  GpuSurroundings here;
  here.several_nodes = true;
  CHECK_THAT(what_to_try(here), Contains("now: NCCL's choice") && Contains("NCCL_IB_DISABLE=1"));
  here.interface = "eth1";
  CHECK_THAT(what_to_try(here), Contains("now: eth1"));
}

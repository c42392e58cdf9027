// Plays NCCL: calls the plug-in as each version of NCCL does, and reads what the launcher would see.

#include <climits>
#include <thread>
#include <utility>

#include "support/nccl_worker.h"

using namespace ddp::launcher;
using namespace ddp::test;
namespace wire = ddp::wire;

TEST_CASE("every collective that a program calls is on the page") {
  const int version = any_version();
  CAPTURE(version);
  NcclPlayer player = played(version);
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 1024);
  player.collective(comm, "AllGather", 10, "ncclBfloat16");
  player.collective(comm, "ReduceScatter", 7, "ncclInt64");
  const auto group = worker().group(id);
  REQUIRE(group);
  CHECK(group->called == 3);
  CHECK(group->rank == 1);
  CHECK(group->is_sampled);
  REQUIRE(group->launches);
  CHECK(group->launches->is_complete == (version > 2));
  CHECK(group->launches->waits_for_all == 3);
  if (version > 3) CHECK(group->size == kRanks);
  const auto calls = worker().calls(id);
  REQUIRE(calls.size() == 3);
  CHECK(calls[0].what == "all_reduce f32[1024]");
  CHECK(calls[1].what == "all_gather bf16[10]");
  CHECK(calls[2].what == "reduce_scatter i64[7]");
  CHECK(is_training(worker().page.view(0).phase));
  player.finalize(comm);
}

TEST_CASE("a rank waits for its root only in collectives in which the root sends") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "Broadcast", 5, "ncclInt8", 3);
  REQUIRE(worker().group(id));
  CHECK(*worker().group(id)->launches ==
        LaunchView{worker().group(id)->launches->is_complete, 0, 1, 3, worker().group(id)->launches->is_named});
  CHECK(worker().calls(id)[0].root == 3);
  player.collective(comm, "Broadcast", 5, "ncclInt8", 1);
  player.collective(comm, "Reduce", 5, "ncclInt8", 0);
  CHECK(worker().group(id)->launches->waits_for_one == 1);
  CHECK(worker().group(id)->launches->waits_for_all == 0);
  player.collective(comm, "Reduce", 5, "ncclInt8", 1);
  CHECK(worker().group(id)->launches->waits_for_all == 4);
  player.finalize(comm);
}

TEST_CASE("calls match if they move the same bytes and reduce the same elements") {
  NcclPlayer player = played(any_version());
  const auto fingerprint = [&](const char* function, std::size_t count, const char* type, int root = 0) {
    const std::uint64_t id = new_id();
    auto comm = player.init(id, kRanks, 1);
    player.collective(comm, function, count, type, root);
    const std::uint64_t seen = worker().calls(id).at(0).fingerprint;
    player.finalize(comm);
    return seen;
  };
  CHECK(fingerprint("AllReduce", 8, "ncclFloat32") == fingerprint("AllReduce", 8, "ncclFloat32", 2));
  CHECK(fingerprint("AllReduce", 8, "ncclFloat32") != fingerprint("AllReduce", 8, "ncclInt32"));
  CHECK(fingerprint("AllReduce", 8, "ncclFloat32") != fingerprint("AllReduce", 9, "ncclFloat32"));
  CHECK(fingerprint("AllGather", 8, "ncclFloat32") == fingerprint("AllGather", 32, "ncclInt8"));
  CHECK(fingerprint("AllGather", 8, "ncclFloat32") != fingerprint("AllReduce", 8, "ncclFloat32"));
  CHECK(fingerprint("Broadcast", 8, "ncclFloat32") != fingerprint("Broadcast", 8, "ncclFloat32", 1));
}

TEST_CASE("unknown functions and types have no name") {
  NcclPlayer player = played(GENERATE(2, 4, 5, 7));
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "Invalid", 3, "Unknown");
  player.collective(comm, "AllReduceSwizzled", 3, "ncclFloat8e4m3");
  REQUIRE(worker().calls(id).size() == 2);
  CHECK(worker().calls(id)[0].fingerprint != worker().calls(id)[1].fingerprint);
  player.finalize(comm);
}

TEST_CASE("transfers are counted per direction and peer") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  for (int i = 0; i < 3; ++i) player.transfer(comm, "Send", 8, 2);
  player.transfer(comm, "Recv", 16, 0, "ncclFloat16");
  const auto group = worker().group(id);
  REQUIRE(group);
  CHECK(group->transfers_called == 4);
  REQUIRE(group->transfers.size() == 2);
  const auto sent = std::ranges::find_if(group->transfers, &TransferView::is_send);
  CHECK((sent->peer == 2 && sent->number == 3));
  const auto received = std::ranges::find_if(group->transfers, [](const auto& one) { return !one.is_send; });
  CHECK((received->peer == 0 && received->number == 1 && received->what == "f16[16]"));
  player.finalize(comm);
}

TEST_CASE("transfers with more peers than the page has entries are only counted") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, 64, 1);
  for (int peer = 0; peer < 64; ++peer) {
    player.transfer(comm, "Send", 8, peer);
    player.transfer(comm, "Recv", 8, peer);
  }
  CHECK(worker().group(id)->transfers_called == 128);
  CHECK(worker().group(id)->transfers.size() == wire::kPageTransfers);
  player.finalize(comm);
}

TEST_CASE("a graph that captures a call makes the counts incomplete") {
  NcclPlayer player = played(GENERATE(5, 6, 7));
  const std::uint64_t collectives = new_id();
  const std::uint64_t transfers = new_id();
  auto one = player.init(collectives, kRanks, 1);
  auto two = player.init(transfers, kRanks, 1);
  player.collective(one, "AllReduce", 8);
  CHECK(worker().group(collectives)->launches->is_complete);
  player.collective(one, "AllReduce", 8, "ncclFloat32", 0, true);
  player.transfer(two, "Send", 8, 0, "ncclFloat32", true);
  CHECK_FALSE(worker().group(collectives)->launches->is_complete);
  CHECK(worker().group(collectives)->called == 1);
  CHECK_FALSE(worker().group(transfers)->launches->is_complete);
  player.finalize(one);
  player.finalize(two);
}

TEST_CASE("older NCCL versions reveal a graph through calls that NCCL does not count") {
  NcclPlayer player = played(GENERATE(3, 4));
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  player.collective(comm, "Broadcast", 8);
  player.collective(comm, "AllReduce", 8);
  CHECK(worker().group(id)->launches->is_complete);
  player.launch(comm, "AllReduce", 8, "ncclFloat32", 0, true);
  player.launch(comm, "AllReduce", 8, "ncclFloat32", 0, true);
  CHECK_FALSE(worker().group(id)->launches->is_complete);
  player.finalize(comm);
}

TEST_CASE("nonsensical events change nothing") {
  const int version = any_version();
  NcclPlayer player = played(version);
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  const nccl::Functions& functions = player.functions();
  void* handle = &comm;
  std::uint64_t event[32] = {};
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t kind = std::uint64_t{1} << static_cast<unsigned>(bit);
    if (kind == nccl::coll || kind == nccl::p2p || kind == nccl::coll_api) continue;
    event[0] = kind;
    CHECK(functions.start(comm.context, &handle, event) == 0);
  }
  CHECK(functions.start(nullptr, &handle, event) == 0);
  CHECK(handle == nullptr);
  CHECK(functions.start(comm.context, nullptr, event) == 0);
  CHECK(functions.start(comm.context, &handle, nullptr) == 0);
  CHECK(functions.stop(nullptr) == 0);
  CHECK(functions.record(nullptr, 22, nullptr) == 0);
  CHECK(functions.finalize(nullptr) == 0);
  CHECK(worker().group(id)->called == 1);
  // A call whose texts are missing is counted, and it has no name.
  event[0] = version < 5 ? nccl::coll : nccl::coll_api;
  if (version >= 4) {
    CHECK(functions.start(comm.context, &handle, event) == 0);
    CHECK(worker().group(id)->called == 2);
  }
  player.finalize(comm);
  CHECK(functions.finalize(comm.context) == 0);
  player.collective(comm, "AllReduce", 8);
}

TEST_CASE("all functions of NCCL are known") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  const std::vector<std::pair<const char*, const char*>> names = {
      {"AlltoAll", "all_to_all"}, {"Gather", "gather"}, {"Scatter", "scatter"}, {"Reduce", "reduce"}};
  for (const auto& [function, name] : names) player.collective(comm, function, 3, "ncclFloat64", 2);
  const auto calls = worker().calls(id);
  REQUIRE(calls.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) CHECK(calls[i].what.starts_with(names[i].second));
  CHECK(worker().group(id)->launches->waits_for_all == 1);
  CHECK(worker().group(id)->launches->waits_for_one == 3);
  player.finalize(comm);
}

TEST_CASE("the profiler plug-in counts operations whose peer or size is out of range and waits for none of them") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  for (const int peer : {-1, -1000, 70'000, INT_MAX, INT_MIN}) {
    player.collective(comm, "Broadcast", SIZE_MAX, "ncclFloat64", peer);
    player.transfer(comm, "Send", SIZE_MAX, peer);
    player.transfer(comm, "Recv", 0, peer);
  }
  CHECK(worker().group(id)->called == 5);
  CHECK(worker().group(id)->transfers_called == 10);
  CHECK(worker().group(id)->launches->waits_for_one == 0);
  player.finalize(comm);
}

TEST_CASE("the profiler plug-in accepts a communicator with an invalid size, an invalid rank and a long name") {
  NcclPlayer player = played(GENERATE(4, 5, 7));
  const std::string name(100'000, 'n');
  const int ranks = GENERATE(-1, 0, 2, INT_MAX);
  const int rank = GENERATE(-1, 0, 5, INT_MAX);
  auto comm = player.init(new_id(), ranks, rank, name.c_str());
  player.collective(comm, "AllReduce", 8);
  worker().page.view(0);
  player.finalize(comm);
}

TEST_CASE("a communicator may be aborted before its first call") {
  NcclPlayer player = played(any_version());
  auto comm = player.init(new_id(), kRanks, 1);
  player.finalize(comm);
  player.finalize(comm);
}

TEST_CASE("each call of a grouped call is counted") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  for (int i = 0; i < 40; ++i) player.collective(comm, i % 2 == 0 ? "AllReduce" : "AllGather", 8);
  CHECK(worker().group(id)->called == 40);
  const auto calls = worker().calls(id);
  REQUIRE(calls.size() == wire::kPageCalls);
  CHECK((calls.front().sequence == 25 && calls.back().sequence == 40));
  player.finalize(comm);
}

TEST_CASE("a communicator may be created by another thread, as with non-blocking ones") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  NcclPlayer::Communicator comm;
  std::thread([&] { comm = player.init(id, kRanks, 1); }).join();
  player.collective(comm, "AllReduce", 8);
  CHECK(worker().group(id)->called == 1);
  player.finalize(comm);
}

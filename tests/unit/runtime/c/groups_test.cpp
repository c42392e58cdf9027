#include <ddp/c.h>

#include <array>
#include <cstdint>
#include <string>

#include "support/c_ranks.h"
#include "support/catch.h"

using namespace ddp::test;

TEST_CASE("C: a process without a launcher is a world of one") {
  const CWorldOfOne world;
  std::int32_t rank = 7;
  std::int32_t size = 7;
  const char* text = nullptr;
  CHECK(ddp_group_rank(world.group(), &rank) == DDP_OK);
  CHECK(ddp_group_size(world.group(), &size) == DDP_OK);
  CHECK(rank == 0);
  CHECK(size == 1);
  CHECK(ddp_group_name(world.group(), &text) == DDP_OK);
  CHECK(std::string(text) == "world");
  CHECK(ddp_group_backend(world.group(), &text) == DDP_OK);
  CHECK_FALSE(std::string(text).empty());
  CHECK(ddp_group_backend_reason(world.group(), &text) == DDP_OK);
  CHECK_FALSE(std::string(text).empty());
}

TEST_CASE("C: the local rank is known before ddp_init()") {
  for (const auto function : {&ddp_local_rank, &ddp_local_size, &ddp_restart_count}) {
    std::int32_t value = 7;
    CHECK(function(&value) == DDP_OK);
    CHECK(value == (function == &ddp_local_size ? 1 : 0));
    require_status(function(nullptr), DDP_ERROR_INVALID_ARGUMENT, {"is a null pointer"});
  }
}

TEST_CASE("C: arguments that ddp_init() cannot use are rejected") {
  ddp_group* world = nullptr;
  ddp_init_options options = DDP_INIT_OPTIONS_INIT;
  const auto refused = [&](int expected, const std::vector<std::string>& words) {
    require_status(ddp_init(&options, &world), expected, words);
    CHECK(world == nullptr);
    options = DDP_INIT_OPTIONS_INIT;
  };
  require_status(ddp_init(nullptr, nullptr), DDP_ERROR_INVALID_ARGUMENT, {"ddp_init: world is a null pointer"});
  options.struct_size = 0;
  refused(DDP_ERROR_INVALID_ARGUMENT, {"ddp_init_options->struct_size is 0", "sizeof(ddp_init_options)"});
  options.rank = 3;
  refused(DDP_ERROR_INVALID_ARGUMENT, {"rank is 3 and world_size is 0"});
  options.rank = 3;
  options.world_size = 2;
  refused(DDP_ERROR_INVALID_ARGUMENT, {"rank 3"});
  options.init_method = "carrier-pigeon://";
  refused(DDP_ERROR_INVALID_ARGUMENT, {"carrier-pigeon"});
  options.timeout_ms = -5;
  refused(DDP_ERROR_INVALID_ARGUMENT, {"timeout_ms is -5"});
  options.backend = "glou";
  refused(DDP_ERROR_INVALID_ARGUMENT, {"unknown backend 'glou'"});
}

TEST_CASE("C: groups can be made from a list of ranks or by colour") {
  run_c_ranks(3, [](ddp_group* world, int rank) {
    ddp_group* pair = nullptr;
    std::int32_t own = -1;
    if (rank != 1) {
      const std::array<std::int32_t, 2> members = {2, 0};
      require_status(ddp_new_group(world, members.data(), 2, "pair", &pair), DDP_OK);
      require_status(ddp_group_rank(pair, &own), DDP_OK);
      require(own == (rank == 2 ? 0 : 1), "the rank is wrong");
      std::int32_t value = 5;
      require_status(ddp_all_reduce(pair, &value, 1, DDP_TYPE_I32, DDP_OP_SUM, nullptr, nullptr), DDP_OK);
      require(value == 10, "the sum is wrong");
      const char* name = nullptr;
      require_status(ddp_group_name(pair, &name), DDP_OK);
      require(std::string(name) == "pair", "the name is wrong");
    }
    ddp_group* part = nullptr;
    require_status(ddp_split(world, rank == 0 ? -1 : 4, -rank, &part), DDP_OK);
    require((part == nullptr) == (rank == 0), "a negative color gets a group");
    if (part != nullptr) {
      require_status(ddp_group_rank(part, &own), DDP_OK);
      require(own == 2 - rank, "the key does not order the ranks");
    }
    require_status(ddp_finalize(world), DDP_OK);
    require_status(ddp_group_destroy(part), DDP_OK);
    require_status(ddp_group_destroy(pair), DDP_OK);
  });
}

TEST_CASE("C: an invalid list of ranks is rejected") {
  const CWorldOfOne world;
  ddp_group* made = nullptr;
  const std::array<std::int32_t, 2> ranks = {0, 4};
  const auto refused = [&](const std::int32_t* list, std::int64_t count, const std::vector<std::string>& words) {
    require_status(ddp_new_group(world.group(), list, count, nullptr, &made), DDP_ERROR_INVALID_ARGUMENT, words);
    CHECK(made == nullptr);
  };
  refused(nullptr, 1, {"ranks is a null pointer"});
  refused(ranks.data(), 2, {"the list has 2 ranks, and the group has 1"});
  refused(ranks.data(), -1, {"-1 ranks"});
  refused(ranks.data(), 0, {"is not in the list"});
  refused(&ranks[1], 1, {"new_group"});
  require_status(ddp_split(world.group(), 0, 0, nullptr), DDP_ERROR_INVALID_ARGUMENT, {"made is a null pointer"});
}

TEST_CASE("C: a finalized or aborted group gives an error that says so") {
  const auto end_by = [](const auto& end, const std::string& word) {
    const CWorldOfOne world;
    CHECK(end(world.group()) == DDP_OK);
    require_status(ddp_barrier(world.group(), nullptr, nullptr), DDP_ERROR_ABORTED, {"barrier", word});
    void* memory = nullptr;
    require_status(ddp_allocate(world.group(), 8, DDP_DEVICE_CPU, &memory), DDP_ERROR_ABORTED, {word});
    std::int32_t rank = 1;
    CHECK(ddp_group_rank(world.group(), &rank) == DDP_OK);
  };
  end_by(&ddp_finalize, "finalized");
  end_by(&ddp_abort, "aborted");
}

TEST_CASE("C: a destroyed group is rejected by every function") {
  ddp_group* group = nullptr;
  CHECK(ddp_init(nullptr, &group) == DDP_OK);
  CHECK(ddp_group_destroy(group) == DDP_OK);
  CHECK(ddp_group_destroy(nullptr) == DDP_OK);
  const std::vector<std::string> words = {"is not a live ddp_group: it was destroyed"};
  std::int32_t number = 0;
  const char* text = nullptr;
  void* memory = nullptr;
  ddp_group* made = nullptr;
  for (const int status :
       {ddp_group_destroy(group), ddp_finalize(group), ddp_abort(group), ddp_barrier(group, nullptr, nullptr),
        ddp_monitored_barrier(group, 0), ddp_group_rank(group, &number), ddp_group_size(group, &number),
        ddp_group_name(group, &text), ddp_group_backend(group, &text), ddp_group_backend_reason(group, &text),
        ddp_allocate(group, 8, DDP_DEVICE_CPU, &memory), ddp_split(group, 0, 0, &made),
        ddp_new_group(group, &number, 1, nullptr, &made)}) {
    require_status(status, DDP_ERROR_INVALID_ARGUMENT, words);
  }
}

TEST_CASE("C: memory is zeroed and aligned, and outlives its group") {
  void* memory = nullptr;
  void* pinned = nullptr;
  {
    const CWorldOfOne world;
    CHECK(ddp_allocate(world.group(), 100, DDP_DEVICE_CPU, &memory) == DDP_OK);
    CHECK(ddp_allocate_pinned(world.group(), 10, &pinned) == DDP_OK);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
    for (int i = 0; i < 100; ++i) CHECK(static_cast<char*>(memory)[i] == 0);
    CHECK(ddp_forget_stream(world.group(), nullptr) == DDP_OK);  // this group has no GPU
    CHECK(ddp_forget_stream(nullptr, nullptr) == DDP_ERROR_INVALID_ARGUMENT);
    void* nothing = memory;
    CHECK(ddp_allocate(world.group(), 0, DDP_DEVICE_CPU, &nothing) == DDP_OK);
    CHECK(nothing == nullptr);
    require_status(ddp_allocate(world.group(), -1, DDP_DEVICE_CPU, &nothing), DDP_ERROR_INVALID_ARGUMENT, {"bytes"});
    require_status(ddp_allocate(world.group(), 1, 9, &nothing), DDP_ERROR_INVALID_ARGUMENT, {"device 9"});
    require_status(ddp_allocate(world.group(), 1, 0, nullptr), DDP_ERROR_INVALID_ARGUMENT, {"data is a null pointer"});
  }
  static_cast<char*>(memory)[99] = 1;
  CHECK(ddp_free(memory) == DDP_OK);
  CHECK(ddp_free(pinned) == DDP_OK);
  CHECK(ddp_free(nullptr) == DDP_OK);
  require_status(ddp_free(memory), DDP_ERROR_INVALID_ARGUMENT,
                 {"was not allocated by ddp_allocate()", "already freed"});
  int other = 0;
  require_status(ddp_free(&other), DDP_ERROR_INVALID_ARGUMENT, {"was not allocated by ddp_allocate()"});
}

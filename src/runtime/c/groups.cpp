// Implements the group functions of <ddp/c.h>, which create, describe and end groups.
#include <ddp/environment.h>
#include <ddp/init.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/c/boundary.h"
#include "runtime/c/c_call.h"
#include "runtime/c/handles.h"

using namespace ddp::internal;

namespace {

// The last field of the structure's first version ends here. Fields that are added later are optional.
constexpr std::size_t kLeastInitOptions = offsetof(ddp_init_options, world_size) + sizeof(ddp_init_options::world_size);

ddp::InitOptions init_options_of(const ddp_init_options* options) {
  ddp::InitOptions result;
  if (options == nullptr) return result;
  ddp_init_options given = DDP_INIT_OPTIONS_INIT;
  copy_structure("ddp_init", "ddp_init_options", options, &given, kLeastInitOptions, sizeof given);
  if (given.backend != nullptr) result.backend = given.backend;
  if (given.init_method != nullptr) result.init_method = given.init_method;
  result.timeout = timeout_of("ddp_init", given.timeout_ms);
  result.store_timeout = timeout_of("ddp_init", given.store_timeout_ms);
  if (given.world_size < 0 || (given.world_size == 0 && given.rank != 0)) {
    refuse("ddp_init", "rank is " + std::to_string(given.rank) + " and world_size is " +
                           std::to_string(given.world_size) + ". Set both, or set both to 0");
  }
  if (given.world_size > 0) {
    result.rank = given.rank;
    result.world_size = given.world_size;
  }
  return result;
}

ddp_group* handle_of(ddp::ProcessGroup group) {
  return handles().groups.add(std::make_shared<ddp::ProcessGroup>(std::move(group)));
}

// Stores the group's answer to a question.
template <typename Value, typename Question>
int answer(const char* function, const ddp_group* group, const char* name, Value* place, Question question) {
  return at_boundary([&] {
    require_output(function, name, place);
    *place = question(*handles().groups.find(function, group));
  });
}

template <typename Question>
int answer_from_environment(const char* function, const char* name, int32_t* place, Question question) {
  return at_boundary([&] {
    require_output(function, name, place);
    *place = question(ddp::Environment::from_process());
  });
}

}  // namespace

int ddp_local_rank(int32_t* local_rank) {
  return answer_from_environment("ddp_local_rank", "local_rank", local_rank,
                                 [](const ddp::Environment& environment) { return environment.local_rank; });
}

int ddp_local_size(int32_t* local_size) {
  return answer_from_environment("ddp_local_size", "local_size", local_size,
                                 [](const ddp::Environment& environment) { return environment.local_world_size; });
}

int ddp_restart_count(int32_t* restart_count) {
  return answer_from_environment("ddp_restart_count", "restart_count", restart_count,
                                 [](const ddp::Environment& environment) { return environment.restart_count; });
}

int ddp_init(const ddp_init_options* options, ddp_group** world) {
  return at_boundary([&] {
    require_output("ddp_init", "world", world);
    *world = handle_of(ddp::init(init_options_of(options)));
  });
}

int ddp_new_group(ddp_group* group, const int32_t* ranks, int64_t count, const char* name, ddp_group** made) {
  return at_boundary([&] {
    require_output("ddp_new_group", "made", made);
    const auto parent = handles().groups.find("ddp_new_group", group);
    if (count < 0 || count > parent->size()) {
      refuse("ddp_new_group",
             "the list has " + std::to_string(count) + " ranks, and the group has " + std::to_string(parent->size()));
    }
    if (ranks == nullptr) refuse("ddp_new_group", "ranks is a null pointer");
    const std::vector<int> list(ranks, ranks + count);
    *made = handle_of(parent->new_group(list, name == nullptr ? "" : name));
  });
}

int ddp_split(ddp_group* group, int32_t color, int32_t key, ddp_group** made) {
  return at_boundary([&] {
    const ddp::CallSite site = take_call_site();
    require_output("ddp_split", "made", made);
    auto part = handles().groups.find("ddp_split", group)->split(color, key, site);
    if (part) *made = handle_of(std::move(*part));
  });
}

int ddp_group_rank(const ddp_group* group, int32_t* rank) {
  return answer("ddp_group_rank", group, "rank", rank, [](const ddp::ProcessGroup& g) { return g.rank(); });
}

int ddp_group_size(const ddp_group* group, int32_t* size) {
  return answer("ddp_group_size", group, "size", size, [](const ddp::ProcessGroup& g) { return g.size(); });
}

int ddp_group_name(const ddp_group* group, const char** name) {
  return answer("ddp_group_name", group, "name", name, [](const ddp::ProcessGroup& g) { return g.name().c_str(); });
}

int ddp_group_backend(const ddp_group* group, const char** backend) {
  return answer("ddp_group_backend", group, "backend", backend,
                [](const ddp::ProcessGroup& g) { return g.backend().c_str(); });
}

int ddp_group_backend_reason(const ddp_group* group, const char** reason) {
  return answer("ddp_group_backend_reason", group, "reason", reason,
                [](const ddp::ProcessGroup& g) { return g.backend_reason().c_str(); });
}

int ddp_monitored_barrier(ddp_group* group, int64_t timeout_ms) {
  return at_boundary([&] {
    const auto members = handles().groups.find("ddp_monitored_barrier", group);
    members->monitored_barrier(timeout_of("ddp_monitored_barrier", timeout_ms));
  });
}

int ddp_finalize(ddp_group* group) {
  return at_boundary([&] {
    const ddp::CallSite site = take_call_site();
    handles().groups.find("ddp_finalize", group)->finalize(site);
  });
}

int ddp_abort(ddp_group* group) {
  return at_boundary([&] { handles().groups.find("ddp_abort", group)->abort(); });
}

int ddp_group_destroy(ddp_group* group) {
  return at_boundary([&] {
    if (group != nullptr) handles().groups.take("ddp_group_destroy", group);
  });
}

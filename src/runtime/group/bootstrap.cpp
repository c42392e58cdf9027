// init(): from an environment to a connected group.
//
//   environment ─▶ store ─▶ every rank's offer ─▶ choice (pure, the same everywhere) ─▶ backend ─▶ ProcessGroup
#include <ddp/error.h>
#include <ddp/init.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "runtime/backend/backend_choice.h"
#include "runtime/backend/gloo/gloo_backend.h"
#include "runtime/backend/plugin.h"
#include "runtime/error_file.h"
#include "runtime/group/group_core.h"
#include "runtime/group/reach_store.h"
#include "wire/worker_env.h"

namespace ddp {
namespace {

// A view of the store for this group alone: a program may call init() again, on all ranks equally often.
std::shared_ptr<Store> enter_store(const std::shared_ptr<Store>& store, const Environment& environment) {
  const std::string attempt = "ddp/" + std::to_string(environment.restart_count);
  const std::int64_t count = store->add(attempt + "/init/" + std::to_string(environment.rank), 1);
  return make_prefix_store(attempt + "/" + std::to_string(count), store);
}

// Every rank's offer, in rank order.
std::vector<BackendOffer> exchange_offers(Store& store, const Environment& environment, const BackendOffer& own) {
  store.set("offer/" + std::to_string(environment.rank), own.encode());
  std::vector<std::string> keys;
  for (int rank = 0; rank < environment.world_size; ++rank) keys.push_back("offer/" + std::to_string(rank));
  std::vector<BackendOffer> offers;
  for (const std::string& text : store.multi_get(keys)) offers.push_back(BackendOffer::decode(text));
  return offers;
}

BackendOffer make_offer(const std::string& requested, const LoadedPlugin& loaded, const BackendOptions& options) {
  if (loaded.plugin == nullptr) return {requested, {loaded.obstacle, ""}};
  return {requested, loaded.plugin->probe(options)};
}

// One write: lines of several ranks or of the program do not cut it in two.
void announce(const ProcessGroup& group) {
  const std::string line = "ddp: backend " + group.backend() + ", " + base::counted(group.size(), "rank") + " (" +
                           group.backend_reason() + ")\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

ProcessGroup connect(const InitOptions& options, const InitMethod& method, const Environment& environment) {
  const std::string requested = options.backend.value_or(environment.backend);
  const BackendOptions backend_options{environment.rank, environment.world_size, environment.local_rank,
                                       options.timeout};
  // nccl is probed when nobody asks for anything; the name may still be unknown, choose_backend says so.
  const bool wants_plugin = requested.empty() || requested == "nccl" || requested == "mpi";
  const LoadedPlugin loaded =
      wants_plugin ? load_backend_plugin(requested.empty() ? "nccl" : requested) : LoadedPlugin{};
  const BackendOffer own = make_offer(requested, loaded, backend_options);

  // MPI has its own way to find the ranks; all else goes through the store.
  std::shared_ptr<Store> store;
  std::vector<BackendOffer> offers = {own};
  if (requested != "mpi") {
    store = enter_store(options.store ? options.store : reach_store(method, environment, options.store_timeout),
                        environment);
    offers = exchange_offers(*store, environment, own);
  }
  BackendChoice choice = choose_backend(offers);
  const BackendFactory factory = choice.name == "gloo" ? make_gloo_backend : loaded.plugin->create;
  auto backend = factory(backend_options, store);
  return ProcessGroup(std::make_unique<GroupCore>(
      GroupDescription{"world", backend_options, store, factory, std::move(choice.reason)}, std::move(backend)));
}

// Under ddplaunch our output is a pipe, of which C would show full blocks only, and lose the last one in a crash.
void show_lines_at_once() {
  const bool launched = std::getenv(wire::env::kAttempt) != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (launched) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

}  // namespace

ProcessGroup init(const InitOptions& options) {
  show_lines_at_once();
  Environment environment = options.environment ? *options.environment : Environment::from_process();
  try {
    const InitMethod method = parse_init_method(options.init_method);
    environment = with_ranks(method, options.rank, options.world_size, environment);
    ProcessGroup group = connect(options, method, environment);
    if (group.rank() == 0 && !environment.quiet) announce(group);
    return group;
  } catch (const Error& error) {
    record_error(error.kind(), error.what());
    throw;
  }
}

}  // namespace ddp

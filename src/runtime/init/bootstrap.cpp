// init() makes a connected group from an environment. run_ranks() does so for the ranks of one process.
//
//   environment ─▶ store ─▶ every rank's offer ─▶ choice (pure, the same everywhere) ─▶ ranks of this node ─▶
//   backend
#include <ddp/error.h>
#include <ddp/init.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <thread>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/backend/backend_choice.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/plugin.h"
#include "runtime/group/fault_injector.h"
#include "runtime/group/group_core.h"
#include "runtime/init/init_method.h"
#include "runtime/limits.h"
#include "runtime/peers/node_group.h"
#include "runtime/peers/wait_for_ranks.h"
#include "runtime/progress/error_file.h"
#include "runtime/progress/stack_signal.h"
#include "runtime/progress/worker_progress.h"
#include "wire/worker_env.h"

namespace ddp {

using namespace internal;

namespace {

FaultInjector faults_of_environment() {
  const char* text = std::getenv(wire::env::kInject);      // NOLINT(concurrency-mt-unsafe)
  const char* attempt = std::getenv(wire::env::kAttempt);  // NOLINT(concurrency-mt-unsafe)
  const auto faults = wire::parse_faults(text == nullptr ? "" : text);
  if (!faults) {
    throw Error(ErrorKind::invalid_argument, std::string(wire::env::kInject) + ": " + faults.error().message);
  }
  const auto number = base::parse_integer(attempt == nullptr ? "0" : attempt, 0, 1 << 30);
  return {faults.value(), static_cast<int>(number.value_or(0))};
}

// Returns the status page that DDP_PAGE_FD names and the faults that DDP_INJECT requests. Every call returns the same
// context, because a fault counts the calls of all groups, including the groups of a second init(). Throws
// invalid_argument if DDP_INJECT is no list of faults.
ProcessContext process_context() {
  static FaultInjector faults = faults_of_environment();
  return {process_page(), process_ring(), &faults};
}

// Gives the group its own view of the store, because a program may call init() again, on all ranks equally often.
void enter_store(const std::shared_ptr<Store>& store, const StartEnvironment& environment, GroupDescription& group) {
  const std::string attempt = "ddp/" + std::to_string(environment.restart_count);
  const std::int64_t count = store->add(attempt + "/init/" + std::to_string(environment.rank), 1);
  const std::string place = attempt + "/" + std::to_string(count);
  group.store = make_prefix_store(place, store);
  // A job may consist of several worlds, each with its own store.
  const std::string identity = "identity";
  if (environment.rank == 0) group.store->set(identity, base::hex64(std::random_device()()));
  wait_for_ranks(*group.store, {&identity, 1}, group.patience.value_or(store->timeout()), group.process.page);
  group.identity = identity_of(place + group.store->get(identity), 0);
}

// Returns every rank's offer, in rank order.
std::vector<BackendOffer> exchange_offers(const GroupDescription& group, const StartEnvironment& environment,
                                          const BackendOffer& own) {
  Store& store = *group.store;
  store.set("offer/" + std::to_string(environment.rank), own.encode());
  const std::vector<std::string> keys = keys_of_ranks("offer", environment.world_size);
  wait_for_ranks(store, keys, group.patience.value_or(store.timeout()), group.process.page);
  std::vector<BackendOffer> offers;
  for (const std::string& text : store.multi_get(keys)) offers.push_back(BackendOffer::decode(text));
  return offers;
}

// Holds the offer of this process, and the plug-ins that were opened for it.
struct Probed {
  BackendOffer offer;
  std::map<std::string, const BackendPlugin*> plugins;
};

Probed probe_backends(const std::string& requested, const BackendOptions& options) {
  Probed probed{{requested, {}}, {}};
  for (const std::string& name : wanted_backends(requested)) {
    ProbeResult result;
    if (name == "cpu") {
      result.obstacle = NodeGroup::obstacle();
    } else if (name == "nccl") {
      result = probe_nccl(options);
    } else if (name != "gloo") {
      const LoadedPlugin loaded = load_backend_plugin(name);
      probed.plugins[name] = loaded.plugin;
      result = loaded.plugin == nullptr ? ProbeResult{loaded.obstacle, ""} : loaded.plugin->probe(options);
    }
    probed.offer.candidates.push_back({name, result});
  }
  return probed;
}

// Returns null if the backend is a plug-in.
BackendFactory factory_of(const std::string& name) {
  if (name == "cpu") return make_cpu_backend;
  if (name == "gloo") return make_gloo_backend;
  if (name == "nccl") return make_nccl_backend;
  return nullptr;
}

// Writes the line in one write, so that lines of other ranks or of the program do not cut it in two.
void announce(const ProcessGroup& group) {
  const std::string line = "ddp: backend " + group.backend() + ", " + base::counted(group.size(), "rank") + " (" +
                           group.backend_reason() + ")\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// Makes the group and runs one operation of all ranks. If the user named a fallback backend, returns the failure of any
// rank, the same on every rank. Otherwise a failure is thrown.
std::string connect_and_try(const GroupDescription& group, const std::string& backend, bool has_substitute,
                            std::unique_ptr<GroupCore>& core) {
  const auto trial = std::min<std::chrono::milliseconds>(limits::kBackendTrial, group.options.timeout);
  std::string failure;
  try {
    GroupDescription attempt = group;
    // The attempt must not see the keys that a previous attempt left in the store.
    attempt.store = make_prefix_store(backend, group.store);
    if (has_substitute) attempt.options.connect_timeout = trial;
    core = GroupCore::open(std::move(attempt));
    core->backend().try_out(trial);
  } catch (const Error& error) {
    if (!has_substitute) throw;
    failure = error.what();
  }
  if (!has_substitute) return "";
  const std::vector<std::string> keys = keys_of_ranks("trial/" + backend, group.options.size);
  group.store->set(keys[static_cast<std::size_t>(group.options.rank)], failure);
  // If a rank failed early, the ranks that wait for it find out after the trial's time.
  const std::vector<std::string> failures = group.store->multi_get(keys);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    core.reset();
    return "rank " + std::to_string(rank) + ": " + failures[rank];
  }
  return "";
}

ProcessGroup connect(const InitOptions& options, const InitMethod& method, const StartEnvironment& environment,
                     const ProcessContext& process) {
  const std::string requested = options.backend.value_or(environment.backend);
  GroupDescription group;
  group.process = process;
  group.options.rank = environment.rank;
  group.options.size = environment.world_size;
  group.options.local_rank = environment.local_rank;
  const TimeLimits times = time_limits(options, environment.is_watched);
  group.options.timeout = times.connecting;
  group.call_timeout = times.operation;
  group.patience = times.coming;
  group.is_programs_timeout = options.timeout.has_value();
  if (!options.store && method.kind == InitMethod::Kind::tcp) group.options.store_host = method.host;
  if (!options.store && method.kind == InitMethod::Kind::environment)
    group.options.store_host = environment.master_addr;
  group.detail = environment.detail;
  const Probed probed = probe_backends(requested, group.options);

  enter_phase(Phase::starting);
  const auto store = options.store ? options.store : reach_store(method, environment, times.store);
  enter_phase(Phase::connected);
  std::vector<BackendOffer> offers;
  {
    const AwaitsWorld shown(group.process.page, environment.world_size);
    enter_store(store, environment, group);
    enter_phase(Phase::rendezvous);
    offers = exchange_offers(group, environment, probed.offer);
  }
  while (true) {
    const BackendChoice choice = choose_backend(offers);
    group.backend_reason = choice.reason;
    group.make_backend = factory_of(choice.name);
    if (!group.make_backend) group.make_backend = probed.plugins.at(choice.name)->create;
    std::unique_ptr<GroupCore> core;
    enter_phase(Phase::communicator);
    const bool has_substitute = choice.name != base::split(requested, ',').back() && !requested.empty();
    const std::string obstacle = connect_and_try(group, choice.name, has_substitute, core);
    if (obstacle.empty()) {
      enter_phase(Phase::training);
      return ProcessGroup(std::move(core));
    }
    for (BackendOffer& offer : offers) offer.rule_out(choice.name, obstacle);
  }
}

// Under ddplaunch, the program's output is a pipe. The C library would write to it only in full blocks, and would lose
// the last one in a crash.
void show_lines_at_once() {
  const bool launched = std::getenv(wire::env::kAttempt) != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (launched) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

// Returns whether a failure only reports the failure of another rank.
bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::peer_lost || error.kind() == ErrorKind::aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace

ProcessGroup init(const InitOptions& options) {
  show_lines_at_once();
  const ProcessContext process = process_context();
  answer_stack_requests(process.page.memory());
  StartEnvironment environment = start_environment(options.environment);
  try {
    const InitMethod method = parse_init_method(options.init_method);
    environment = with_ranks(method, options.rank, options.world_size, environment);
    ProcessGroup group = connect(options, method, environment, process);
    if (group.rank() == 0 && !environment.quiet) announce(group);
    return group;
  } catch (const Error& error) {
    record_error(error.kind(), error.what());
    throw;
  }
}

void run_ranks(int ranks, const std::function<void(ProcessGroup& group)>& rank, const RunRanksOptions& options) {
  if (ranks < 1) throw Error(ErrorKind::invalid_argument, "run_ranks: " + std::to_string(ranks) + " ranks");
  const BackendFactory factory = factory_of(options.backend);
  if (!factory) {
    throw Error(ErrorKind::invalid_argument, "run_ranks: backend '" + options.backend +
                                                 "' does not support ranks of one process. Use cpu, gloo or nccl");
  }
  const ProbeResult found = options.backend == "nccl" ? probe_nccl({}) : ProbeResult();
  if (!found.obstacle.empty()) throw Error(ErrorKind::unavailable, "run_ranks: " + found.obstacle);
  const ProcessContext process = process_context();
  const auto store = make_memory_store(options.timeout);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int number = 0; number < ranks; ++number) {
    threads.emplace_back([&, number] {
      try {
        GroupDescription description{
            "world", {number, ranks, number, options.timeout}, store, factory, "ranks of one process"};
        // One status page cannot show several ranks.
        description.is_shown = false;
        description.process = process;
        ProcessGroup group(GroupCore::open(std::move(description)));
        rank(group);
      } catch (...) {
        failures[static_cast<std::size_t>(number)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr first;
  for (const std::exception_ptr& failure : failures) {
    if (failure && (!first || (is_consequence(first) && !is_consequence(failure)))) first = failure;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace ddp

#include <ddp/environment.h>
#include <ddp/error.h>

#include <cstdlib>

#include "base/text.h"
#include "runtime/init/start_environment.h"
#include "runtime/limits.h"
#include "wire/worker_env.h"

namespace ddp {

using namespace internal;

namespace {

namespace env = wire::env;

class Reader {
 public:
  explicit Reader(const Environment::Lookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const char* name) const { return lookup_(name); }

  int integer(const char* name, int minimum, int maximum, std::optional<int> fallback = std::nullopt) const {
    const auto value = lookup_(name);
    if (!value) {
      if (fallback) return *fallback;
      throw Error(ErrorKind::invalid_argument,
                  std::string("RANK is set but ") + name + " is not. Start the program with ddplaunch, or set both.");
    }
    const auto number = base::parse_integer(*value, minimum, maximum);
    if (!number) {
      throw Error(ErrorKind::invalid_argument, std::string("environment variable ") + name + "='" + *value +
                                                   "' is not a whole number from " + std::to_string(minimum) + " to " +
                                                   std::to_string(maximum) + ".");
    }
    return static_cast<int>(*number);
  }

 private:
  const Environment::Lookup& lookup_;
};

constexpr int kMost = 1 << 24;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return std::nullopt;
  return value;
}

// Reads the values that a program's own Environment does not contain.
StartEnvironment read_start(const Reader& reader) {
  StartEnvironment result;
  result.launcher_serves = reader.text(env::kUseAgentStore).value_or("") == "True";
  result.is_watched = reader.text(env::kWatched).value_or("") == "1";
  return result;
}

}  // namespace

StartEnvironment internal::start_environment(const std::optional<Environment>& programs) {
  if (!programs) return read_environment(variable);
  const Environment::Lookup lookup = variable;
  StartEnvironment result = read_start(Reader(lookup));
  static_cast<Environment&>(result) = *programs;
  result.has_ranks = true;
  return result;
}

Environment Environment::from_process() {
  return from_lookup(variable);
}

Environment Environment::from_lookup(const Lookup& lookup) {
  return read_environment(lookup);
}

StartEnvironment internal::read_environment(const Environment::Lookup& lookup) {
  const Reader reader(lookup);
  StartEnvironment result = read_start(reader);
  result.backend = reader.text(env::kBackend).value_or("");
  result.detail = reader.text(env::kDebug).value_or("") == "detail";
  result.quiet = reader.text(env::kQuiet).value_or("") == "1";
  if (reader.text(env::kRank)) {
    result.world_size = reader.integer(env::kWorldSize, 1, kMost);
    result.rank = reader.integer(env::kRank, 0, result.world_size - 1);
    result.local_world_size = reader.integer(env::kLocalWorldSize, 1, kMost, 1);
    result.local_rank = reader.integer(env::kLocalRank, 0, kMost, 0);
    result.restart_count = reader.integer(env::kRestartCount, 0, kMost, 0);
  } else if (reader.text(env::kOmpiRank)) {
    result.under_mpirun = true;
    result.world_size = reader.integer(env::kOmpiSize, 1, kMost);
    result.rank = reader.integer(env::kOmpiRank, 0, result.world_size - 1);
    result.local_world_size = reader.integer(env::kOmpiLocalSize, 1, kMost, 1);
    result.local_rank = reader.integer(env::kOmpiLocalRank, 0, kMost, 0);
  } else {
    result.lacks_rank = reader.text(env::kWorldSize).value_or("1") != "1";
  }
  result.has_ranks = reader.text(env::kRank) || result.under_mpirun;
  result.master_addr = reader.text(env::kMasterAddr).value_or("");
  // Ranks may be given in another way. The address then counts only if it is complete.
  if (!result.has_ranks && !reader.text(env::kMasterPort)) result.master_addr.clear();
  if (!result.master_addr.empty()) {
    result.master_port = static_cast<std::uint16_t>(reader.integer(env::kMasterPort, 1, 65535));
  }
  return result;
}

TimeLimits internal::time_limits(const InitOptions& options, bool is_watched) {
  TimeLimits result;
  result.connecting = options.timeout.value_or(limits::kConnecting);
  result.store = options.store_timeout.value_or(limits::kStoreCall);
  if (!is_watched || options.timeout) return result;
  result.operation = limits::kNoTimeout;
  if (!options.store_timeout) result.coming = limits::kNoTimeout;
  return result;
}

}  // namespace ddp

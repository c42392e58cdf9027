#include "runtime/init/process_context.h"

#include <ddp/error.h>

#include <cstdlib>
#include <string>

#include "base/text.h"
#include "runtime/group/fault_injector.h"
#include "runtime/progress/worker_progress.h"
#include "wire/worker_env.h"

namespace ddp::internal {
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

}  // namespace

ProcessContext process_context() {
  static FaultInjector faults = faults_of_environment();
  return {process_page(), process_ring(), &faults};
}

}  // namespace ddp::internal

#include "launcher/start/facts/node_facts.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/hash.h"
#include "base/host_name.h"
#include "base/random.h"
#include "launcher/start/facts/memory_room.h"
#include "launcher/start/facts/wrapper_programs.h"
#include "store/store_token.h"
#include "wire/worker_env.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ddp::launcher {
namespace {

// Returns a UUID of version 4 of RFC 4122. It is random except for the version and two bits of the variant.
std::string random_uuid() {
  const std::uint64_t high = (base::random64() & ~0xf000ULL) | 0x4000ULL;
  const std::uint64_t low = (base::random64() & ~(3ULL << 62)) | (2ULL << 62);
  const std::string digits = base::hex64(high) + base::hex64(low);
  return digits.substr(0, 8) + "-" + digits.substr(8, 4) + "-" + digits.substr(12, 4) + "-" + digits.substr(16, 4) +
         "-" + digits.substr(20);
}

ProgramFacts first_found(const std::vector<std::string>& candidates, const std::vector<std::string>& environment) {
  ProgramFacts first;
  for (const std::string& candidate : candidates) {
    ProgramFacts facts = find_program(candidate, environment);
    if (facts.found) return facts;
    if (first.path.empty()) first = std::move(facts);
  }
  return first;
}

}  // namespace

NodeFacts gather_node_facts(const FactsWanted& wanted) {
  NodeFacts facts;
  facts.host_name = base::host_name();
  const std::vector<int> cpus = affinity_cpus();
  facts.memory_room = memory_room();
  facts.cpu_count = usable_cpus(static_cast<int>(cpus.size()), cgroup_cpu_limit());
  facts.limits = read_resource_limits();
  for (char** line = environ; *line != nullptr; ++line) facts.environment.emplace_back(*line);

  if (wanted.kind == ProgramKind::executable) {
    facts.program = find_program(wanted.command.front(), facts.environment);
    facts.runs_python = runs_python(wanted.command, facts.environment);
  }
  if (wanted.kind == ProgramKind::script) facts.program = find_script(wanted.command.front());
  if (wanted.kind != ProgramKind::executable) {
    facts.interpreter =
        first_found(interpreter_candidates(facts.environment, wanted.virtual_environment), facts.environment);
  }
  facts.random_id = base::hex64(base::random64());
  facts.random_uuid = random_uuid();
  facts.console_is_terminal = ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  facts.standard_input = standard_input(::getpid());
  facts.auth_token = read_auth_token(wanted.auth_token_file, facts.environment);
  const auto read = [](const std::string& path) {
    std::string text = base::read_file(path);
    return text.empty() ? std::nullopt : std::optional(std::move(text));
  };
  if (auto found = read_cluster_env({wanted.scheduler, facts.environment, facts.host_name, read})) {
    facts.cluster = std::move(found.value().cluster);
    facts.cluster_warnings = std::move(found.value().warnings);
  } else {
    facts.cluster_failure = found.error().message;
  }
  const bool wants_hook = find_variable(facts.environment, wire::env::kTorch) != "0";
  if (wants_hook && ::access((wanted.python_hook + "/sitecustomize.py").c_str(), R_OK) == 0) {
    facts.python_hook = wanted.python_hook;
  }
  if (::access(wanted.nccl_profiler.c_str(), R_OK) == 0) facts.nccl_profiler = wanted.nccl_profiler;
  const std::string modules = wanted.python_hook + "/modules";
  if (::access(modules.c_str(), X_OK) == 0) facts.python_modules = modules;
  if (wanted.topology) facts.topology = read_cpu_topology(cpus);
  return facts;
}

base::Result<std::shared_ptr<const store::Authenticator>> read_auth_token(const std::string& file,
                                                                          const std::vector<std::string>& environment) {
  using Token = std::shared_ptr<const store::Authenticator>;
  const auto variable = find_variable(environment, wire::env::kAuthToken);
  if (file.empty() && !variable) return Token();
  const std::string source = file.empty() ? wire::env::kAuthToken : "--auth-token-file=" + file;
  if (!file.empty() && variable) {
    return base::Failure{source + " and the variable " + wire::env::kAuthToken +
                         " both provide a token. Leave one out."};
  }
  auto token = file.empty() ? store::StoreToken::from_text(*variable) : store::StoreToken::from_file(file);
  if (token) return Token(std::move(token).value());
  return base::Failure{source + " " + token.error().message};
}

void hide_auth_token() {
  char* value = ::getenv(wire::env::kAuthToken);
  if (value == nullptr) return;
  store::wipe(value, std::strlen(value));
  ::unsetenv(wire::env::kAuthToken);
}

std::optional<std::string> find_variable(std::span<const std::string> environment, std::string_view name) {
  for (const std::string& line : environment) {
    if (line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name)) {
      return line.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

}  // namespace ddp::launcher

#include <ddp/environment.h>

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv is POSIX

#include <map>

#include "runtime/init/start_environment.h"
#include "runtime/limits.h"
#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp::internal;
using namespace ddp::test;
using namespace ddp;
using namespace std::chrono_literals;
using ddp::ErrorKind;
using Variables = std::map<std::string, std::string>;

namespace {

StartEnvironment read(const Variables& variables) {
  return read_environment([&](const char* name) -> std::optional<std::string> {
    const auto entry = variables.find(name);
    if (entry == variables.end()) return std::nullopt;
    return entry->second;
  });
}

// ddplaunch gives these variables to rank 5 of 8, the second of four on its node.
const Variables kLaunched = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

}  // namespace

TEST_CASE("a garbled variable is named with its value") {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}) {
    for (const char* value : {"", "x", "-1", "1.5", "99999999999999999999", " 1"}) {
      INFO(name << "='" << value << "'");
      expect_error(ErrorKind::invalid_argument, {name, "'" + std::string(value) + "'"},
                   [&] { read(with(kLaunched, name, value)); });
    }
  }
}

TEST_CASE("a number out of range is named with its range") {
  expect_error(ErrorKind::invalid_argument, {"RANK='8'", "from 0 to 7"}, [] { read(with(kLaunched, "RANK", "8")); });
  expect_error(ErrorKind::invalid_argument, {"WORLD_SIZE='0'"}, [] { read(with(kLaunched, "WORLD_SIZE", "0")); });
  expect_error(ErrorKind::invalid_argument, {"MASTER_PORT='65536'", "65535"},
               [] { read(with(kLaunched, "MASTER_PORT", "65536")); });
  expect_error(ErrorKind::invalid_argument, {"MASTER_PORT='0'"}, [] { read(with(kLaunched, "MASTER_PORT", "0")); });
}

TEST_CASE("a missing variable is named") {
  expect_error(ErrorKind::invalid_argument, {"WORLD_SIZE"}, [] { read(without(kLaunched, "WORLD_SIZE")); });
  expect_error(ErrorKind::invalid_argument, {"MASTER_PORT"}, [] { read(without(kLaunched, "MASTER_PORT")); });
  // The method of init() may name the store instead.
  CHECK(read(without(kLaunched, "MASTER_ADDR")).master_addr.empty());
  expect_error(ErrorKind::invalid_argument, {"OMPI_COMM_WORLD_SIZE"}, [] { read({{"OMPI_COMM_WORLD_RANK", "0"}}); });
}

TEST_CASE("the variables that the launcher sets are read") {
  const StartEnvironment environment = read(kLaunched);
  CHECK(environment.rank == 5);
  CHECK(environment.world_size == 8);
  CHECK(environment.local_rank == 1);
  CHECK(environment.local_world_size == 4);
  CHECK(environment.restart_count == 2);
  CHECK(environment.master_addr == "node0");
  CHECK(environment.master_port == 29500);
  CHECK(environment.backend.empty());
  CHECK_FALSE(environment.quiet);
  CHECK_FALSE(environment.under_mpirun);
  CHECK(environment.has_ranks);
  CHECK_FALSE(environment.launcher_serves);
  CHECK(read(with(kLaunched, "TORCHELASTIC_USE_AGENT_STORE", "True")).launcher_serves);
  CHECK_FALSE(read(with(kLaunched, "TORCHELASTIC_USE_AGENT_STORE", "true")).launcher_serves);
}

TEST_CASE("a process without a launcher is a world of one") {
  const StartEnvironment environment = read({{"DDP_BACKEND", "gloo"}, {"DDP_QUIET", "1"}});
  CHECK(environment.rank == 0);
  CHECK(environment.world_size == 1);
  CHECK_FALSE(environment.has_ranks);
  CHECK(environment.master_addr.empty());
  CHECK(environment.backend == "gloo");
  CHECK(environment.quiet);
  CHECK_FALSE(environment.lacks_rank);
  CHECK(read({{"WORLD_SIZE", "garbled"}}).lacks_rank);
  CHECK_FALSE(read({{"WORLD_SIZE", "1"}}).lacks_rank);
}

TEST_CASE("the store's address is used without RANK as well, because InitOptions may contain the ranks") {
  const StartEnvironment environment = read({{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}});
  CHECK(environment.master_addr == "localhost");
  CHECK(environment.master_port == 29500);
  CHECK(read({{"MASTER_ADDR", "localhost"}}).master_addr.empty());
}

TEST_CASE("local ranks and restart counts have defaults") {
  const StartEnvironment environment = read({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  CHECK(environment.local_rank == 0);
  CHECK(environment.local_world_size == 1);
  CHECK(environment.restart_count == 0);
}

TEST_CASE("under mpirun the ranks come from Open MPI, and no store is needed") {
  const Variables mpirun = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const StartEnvironment environment = read(mpirun);
  CHECK(environment.under_mpirun);
  CHECK(environment.rank == 3);
  CHECK(environment.world_size == 4);
  CHECK(environment.local_rank == 1);
  CHECK(environment.local_world_size == 2);
  CHECK(environment.master_addr.empty());
  expect_error(ErrorKind::invalid_argument, {"OMPI_COMM_WORLD_RANK='4'"},
               [&] { read(with(mpirun, "OMPI_COMM_WORLD_RANK", "4")); });
}

TEST_CASE("the launcher's variables override those of mpirun") {
  Variables both = kLaunched;
  both.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  const StartEnvironment environment = read(both);
  CHECK(environment.rank == 5);
  CHECK_FALSE(environment.under_mpirun);
}

TEST_CASE("a program's own Environment replaces the rank variables but not the store settings") {
  ::setenv("RANK", "garbled", 1);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  ddp::Environment own;
  own.rank = 2;
  own.world_size = 3;
  const StartEnvironment environment = start_environment(own);
  expect_error(ErrorKind::invalid_argument, {"WORLD_SIZE"}, [] { start_environment(std::nullopt); });
  ::unsetenv("RANK");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  CHECK(environment.rank == 2);
  CHECK(environment.has_ranks);
  CHECK(environment.launcher_serves);
}

TEST_CASE("a rank without a supervising launcher gives up after some minutes") {
  const TimeLimits limits = time_limits({}, false);
  CHECK(limits.connecting == 10min);
  CHECK(limits.store == 5min);
  CHECK_FALSE(limits.operation);
  CHECK_FALSE(limits.coming);
}

TEST_CASE("under ddplaunch ranks wait for each other without their own limit") {
  const TimeLimits limits = time_limits({}, true);
  CHECK(limits.connecting == 10min);  // all ranks have come, so only the network causes delays
  CHECK(limits.store == 5min);
  CHECK(limits.operation == limits::kNoTimeout);
  CHECK(limits.coming == limits::kNoTimeout);
}

TEST_CASE("a timeout that the program sets also applies under ddplaunch") {
  InitOptions options;
  options.store_timeout = 20s;
  CHECK(time_limits(options, true).operation == limits::kNoTimeout);
  CHECK_FALSE(time_limits(options, true).coming);
  CHECK(time_limits(options, true).store == 20s);
  options.timeout = 30s;
  CHECK(time_limits(options, true).connecting == 30s);
  CHECK_FALSE(time_limits(options, true).operation);
}

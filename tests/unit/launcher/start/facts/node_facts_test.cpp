#include "launcher/start/facts/node_facts.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

TEST_CASE("gather_node_facts() finds the CPUs, the host name, PATH and the program, and draws a new random ID") {
  const FactsWanted wanted{.command = {"sh"}};
  const NodeFacts facts = gather_node_facts(wanted);
  CHECK(facts.cpu_count >= 1);
  CHECK_FALSE(facts.host_name.empty());
  CHECK(find_variable(facts.environment, "PATH").has_value());
  CHECK(facts.program.executable);
  CHECK(facts.interpreter.path.empty());
  CHECK(facts.topology.value().cpus.empty());
  CHECK(facts.random_id != gather_node_facts(wanted).random_id);
}

TEST_CASE("the random UUID in the facts has version 4") {
  const std::string uuid = gather_node_facts(FactsWanted{.command = {"sh"}}).random_uuid;
  REQUIRE(uuid.size() == 36);
  for (const std::size_t dash : {8U, 13U, 18U, 23U}) CHECK(uuid[dash] == '-');
  CHECK(uuid[14] == '4');
  CHECK(std::string("89ab").find(uuid[19]) != std::string::npos);
}

TEST_CASE("for a script the facts include its interpreter") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/train.py") << "pass\n";
  const NodeFacts facts = gather_node_facts({.kind = ProgramKind::script, .command = {directory.path() + "/train.py"}});
  CHECK(facts.program.found);
  CHECK_FALSE(facts.interpreter.path.empty());
}

TEST_CASE("the CPU topology is read only if CPUs are to be bound") {
  const FactsWanted wanted{.command = {"sh"}, .topology = true};
  const NodeFacts facts = gather_node_facts(wanted);
  REQUIRE(facts.topology);
  CHECK_FALSE(facts.topology.value().cpus.empty());
}

TEST_CASE("a variable is found by its full name only") {
  const std::vector<std::string> environment = {"AB=1", "A=2", "EMPTY="};
  CHECK(find_variable(environment, "A") == "2");
  CHECK(find_variable(environment, "EMPTY") == "");
  CHECK_FALSE(find_variable(environment, "B").has_value());
}

TEST_CASE("the token is read from the given file or from the variable") {
  FactsWanted wanted{.command = {"sh"}};
  CHECK(gather_node_facts(wanted).auth_token.value() == nullptr);

  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/token";
  std::ofstream(path) << "0123456789abcdef\n";
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  wanted.auth_token_file = path;
  const NodeFacts by_file = gather_node_facts(wanted);
  REQUIRE(by_file.auth_token);
  REQUIRE(by_file.auth_token.value());

  REQUIRE(::setenv("DDP_AUTH_TOKEN", "0123456789abcdef", 1) == 0);
  const char* value = ::getenv("DDP_AUTH_TOKEN");
  wanted.auth_token_file.clear();
  const NodeFacts by_variable = gather_node_facts(wanted);
  REQUIRE(by_variable.auth_token);
  REQUIRE(by_variable.auth_token.value());
  CHECK(by_variable.auth_token.value()->verify("m", by_file.auth_token.value()->sign("m")));

  hide_auth_token();
  CHECK(::getenv("DDP_AUTH_TOKEN") == nullptr);
  CHECK(std::string(value, 16) == std::string(16, '\0'));
  CHECK(gather_node_facts(wanted).auth_token.value() == nullptr);
  hide_auth_token();
}

TEST_CASE("an invalid token is reported with its source") {
  FactsWanted wanted{.command = {"sh"}};
  REQUIRE(::setenv("DDP_AUTH_TOKEN", "short", 1) == 0);
  const NodeFacts by_variable = gather_node_facts(wanted);
  REQUIRE(::unsetenv("DDP_AUTH_TOKEN") == 0);
  CHECK_FALSE(by_variable.auth_token);
  CHECK_THAT(by_variable.auth_token.error().message, Catch::StartsWith("DDP_AUTH_TOKEN has 5 bytes"));
  wanted.auth_token_file = "/nonexistent";
  CHECK(gather_node_facts(wanted).auth_token.error().message ==
        "--auth-token-file=/nonexistent cannot be read (No such file or directory). Check its name.");
  REQUIRE(::setenv("DDP_AUTH_TOKEN", "0123456789abcdef", 1) == 0);
  const NodeFacts by_both = gather_node_facts(wanted);
  REQUIRE(::unsetenv("DDP_AUTH_TOKEN") == 0);
  CHECK(by_both.auth_token.error().message ==
        "--auth-token-file=/nonexistent and the variable DDP_AUTH_TOKEN both provide a token. Leave one out.");
}

#include "launcher/cli/option_table.h"

#include <catch2/catch.hpp>

#include <set>

using namespace ddp::launcher;

TEST_CASE("every name of an option is found in both spellings, and no name is used twice") {
  std::set<std::string> seen;
  for (const OptionSpec& option : option_table()) {
    for (const std::string& name : names_of(option)) {
      CAPTURE(name);
      CHECK(seen.insert(name).second);
      CHECK(name == with_dashes(name));
      CHECK(find_option(name) == &option);
      std::string underscores = name;
      for (char& c : underscores) c = c == '-' ? '_' : c;
      CHECK(find_option(underscores) == &option);
    }
    if (option.short_name != '\0') CHECK(find_option(option.short_name) == &option);
  }
  CHECK(find_option("no-such-option") == nullptr);
  CHECK(find_option('z') == nullptr);
  CHECK(find_option('\0') == nullptr);
}

TEST_CASE("every option has a help text, and a value a name") {
  for (const OptionSpec& option : option_table()) {
    CAPTURE(option.name);
    CHECK(option.help.size() > 10);
    CHECK(option.help.ends_with('.'));
    CHECK((option.kind == OptionKind::value) == !option.value_name.empty());
  }
}

TEST_CASE("only what can be negated has a negation") {
  CHECK(is_negation(*find_option("tag"), "no-tag"));
  CHECK(is_negation(*find_option("collapse"), "no_collapse"));
  CHECK_FALSE(is_negation(*find_option("tag"), "tag"));
  CHECK_FALSE(is_negation(*find_option("no-python"), "no-python"));
  CHECK(find_option("no-quiet") == nullptr);
}

TEST_CASE("a variable is the name in capitals after PET_") {
  CHECK(variable_of("nproc-per-node") == "PET_NPROC_PER_NODE");
  CHECK(variable_of("tee") == "PET_TEE");
}

TEST_CASE("numa-binding and logs-specs have no variable, as in torchrun") {
  CHECK(find_option("numa-binding")->sources == OptionSources::no_variable);
  CHECK(find_option("logs-specs")->sources == OptionSources::no_variable);
  CHECK(find_option("nnodes")->sources == OptionSources::all);
}

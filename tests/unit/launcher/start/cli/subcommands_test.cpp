#include "launcher/start/cli/subcommands.h"

#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("each subcommand is found by its name and prints its help") {
  for (const Subcommand& each : subcommands()) {
    CAPTURE(each.name);
    CHECK(find_subcommand(each.name) == &each);
    CHECK(std::string_view(each.help).ends_with('.'));
    CHECK((each.description == nullptr) == (each.options == nullptr));
    const char* argv[] = {"ddplaunch", each.name, "--help"};
    CHECK(std::holds_alternative<Information>(parse_command_line(3, argv, {})));
  }
  CHECK(find_subcommand("tpo") == nullptr);
  CHECK(find_subcommand("") == nullptr);
}

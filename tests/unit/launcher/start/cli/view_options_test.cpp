#include "launcher/start/cli/view_options.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("the views of a job are off by default, and steps are recorded") {
  JobWishes wishes;
  OptionSet command(/*has_variables=*/false);
  declare_view_options(command, wishes);
  CHECK_FALSE(command.parse({}, {}));
  CHECK(wishes == JobWishes());
  CHECK(wishes.recording == Recording::steps);
  CHECK_FALSE(wishes.live);
}

TEST_CASE("an unknown kind of record is rejected with the list of known kinds") {
  JobWishes wishes;
  OptionSet command(/*has_variables=*/false);
  declare_view_options(command, wishes);
  const OptionInfo* record = find_option("record", command.options());
  REQUIRE(record != nullptr);
  const Setting setting{record, "everything", "--record=everything"};
  const auto mistake = command.parse({&setting, 1}, {});
  REQUIRE(mistake);
  CHECK_THAT(*mistake, Catch::Matchers::Contains("off, steps or all"));
}

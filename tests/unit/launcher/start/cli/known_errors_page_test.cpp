#include "launcher/start/cli/known_errors_page.h"

#include "launcher/start/causes/cause_table.h"
#include "launcher/start/cli/help_topic.h"
#include "support/catch.h"

namespace ddp::launcher {
namespace {

TEST_CASE("the pages of known errors list all causes in both languages") {
  const std::string english = known_errors_page(Language::english);
  const std::string chinese = known_errors_page(Language::chinese);
  for (const Cause* cause : all_causes()) {
    const std::string anchor = " {#" + std::string(cause->id) + "}\n";
    CHECK_THAT(english, Catch::Contains(anchor));
    CHECK_THAT(chinese, Catch::Contains(anchor));
    if (cause->cause_zh.find('_') == std::string_view::npos) {
      CHECK_THAT(chinese, Catch::Contains(std::string(cause->cause_zh)));
    }
  }
  CHECK_THAT(english, Catch::Contains("if \\_\\_name\\_\\_ == \"\\_\\_main\\_\\_\":"));
  CHECK_THAT(english, Catch::StartsWith("# Known errors\n"));
  CHECK(english.ends_with("\n"));
  CHECK_FALSE(english.ends_with("\n\n"));
}

TEST_CASE("ddplaunch help for a cause prints its description, cause and remedy") {
  REQUIRE_FALSE(all_causes().empty());
  const Cause& cause = *all_causes().front();
  const std::vector<std::string> id = {std::string(cause.id)};
  CHECK(help_on(id).value() == cause_help(cause));
  CHECK_THAT(cause_help(cause), Catch::StartsWith(std::string(cause.patterns[0]) + "\n"));
  CHECK_THAT(cause_help(cause), Catch::Contains("\n  Cause: "));
  CHECK_THAT(cause_help(cause), Catch::Contains("\n  Remedy: "));
}

}  // namespace
}  // namespace ddp::launcher

#include "launcher/output/line_filter.h"

#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("lines with one of the words go to the file, with their tag") {
  const TemporaryDirectory directory;
  LineFilter filter({"loss", "error"});
  REQUIRE(filter.open(directory.path() + "/filtered_stdout.log") == "");
  bool matches = false;
  const auto take = [&](std::string_view text, bool begins = true, bool ends = true) {
    filter.take({text, begins, ends}, [] { return std::string("[3] "); }, matches, {});
  };
  take("loss 1\n");
  take("nothing\n");
  take("an error", true, false);
  take(" and its rest\n", false, true);
  take("nothing again\n");
  CHECK(text_of(directory.path() + "/filtered_stdout.log") == "[3] loss 1\n[3] an error and its rest\n");
}

TEST_CASE("without words there is no file") {
  const TemporaryDirectory directory;
  LineFilter filter({});
  CHECK(filter.open(directory.path() + "/filtered_stdout.log") == "");
  CHECK_FALSE(filter.active());
  CHECK_FALSE(std::ifstream(directory.path() + "/filtered_stdout.log"));
}

TEST_CASE("a file of filtered lines that cannot be made is named") {
  LineFilter filter({"x"});
  CHECK_THAT(filter.open("/no/such/folder/f.log"), Catch::Contains("/no/such/folder/f.log"));
}

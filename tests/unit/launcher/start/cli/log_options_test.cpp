#include "launcher/start/cli/log_options.h"

#include "support/command_line.h"

using namespace ddp::launcher;

namespace {

LogLevel level(const Words& words, const Words& environment = {}) {
  Words all = words;
  all.emplace_back("p");
  return parsed_as(all, environment).log.level;
}

}  // namespace

TEST_CASE("the last option that sets the log level wins") {
  CHECK(level({}) == LogLevel::info);
  CHECK(level({"-q"}) == LogLevel::warning);
  CHECK(level({"-v"}) == LogLevel::debug);
  CHECK(level({"-q", "--verbose"}) == LogLevel::debug);
  CHECK(level({"--log-level=trace", "--quiet"}) == LogLevel::warning);
  CHECK(level({"-v", "--log_level", "error"}) == LogLevel::error);
}

TEST_CASE("a variable sets the log level and an option overrides it") {
  CHECK(level({}, {"DDP_LOG=debug"}) == LogLevel::debug);
  CHECK(level({"-q"}, {"DDP_LOG=debug"}) == LogLevel::warning);
  CHECK(level({}, {"DDP_LOG=debug", "PET_LOG_LEVEL=note"}) == LogLevel::note);
  CHECK(level({}, {"DDP_LOG="}) == LogLevel::info);
}

TEST_CASE("an unknown log level is rejected with the list of valid levels") {
  const std::string known = " is not known. Use trace, debug, info, note, warning or error. See ddplaunch";
  CHECK(mistake({"--log-level=loud", "p"}) == "--log-level=loud" + known + " --help");
  CHECK(mistake({"p"}, {"DDP_LOG=answer"}) == "DDP_LOG=answer" + known + " --help");
  CHECK(mistake({"store"}, {"DDP_LOG=loud"}) == "DDP_LOG=loud" + known + " store --help");
  CHECK(mistake({"--launcher-log=", "p"}) == "--launcher-log= is empty. Name a file. See ddplaunch --help");
}

TEST_CASE("ddplaunch store has the same log options") {
  const StoreOptions options = parsed_as<StoreOptions>({"store", "-v", "--launcher-log=f"}, {"DDP_LOG=error"});
  CHECK(options.log == LogSettings{LogLevel::debug, "f", false});
  CHECK(parsed_as<StoreOptions>({"store"}, {"DDP_LOG=error"}).log.level == LogLevel::error);
}

#include "launcher/start/cli/report_options.h"

#include "base/text.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

ParsedCommand parse(const Words& words) {
  std::vector<const char*> argv{"ddplaunch", "report"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), Words{"PET_OUTPUT=x"});
}

ReportOptions options(const Words& words) {
  const auto result = parse(words);
  if (const auto* error = std::get_if<UsageError>(&result)) FAIL(error->message);
  return std::get<ReportOptions>(result);
}

std::string mistake(const Words& words) {
  const auto result = parse(words);
  REQUIRE(std::holds_alternative<UsageError>(result));
  return std::get<UsageError>(result).message;
}

}  // namespace

TEST_CASE("a report is written beside its event log unless another file is given") {
  CHECK(options({"run.jsonl"}).event_logs == Words{"run.jsonl"});
  CHECK(options({"run.jsonl"}).output == "run.html");
  CHECK(options({"/logs.d/run"}).output == "/logs.d/run.html");
  CHECK(options({"a/.jsonl"}).output == "a/.jsonl.html");
  CHECK(options({"run.jsonl", "-o", "x.html"}).output == "x.html");
  CHECK(options({"--output=-", "--run-id=r1", "run.jsonl"}).output == "-");
  CHECK(options({"--run-id=r1", "run.jsonl"}).run_id == "r1");
  CHECK(options({"d/a.jsonl", "e/b.jsonl"}).event_logs == Words{"d/a.jsonl", "e/b.jsonl"});
  CHECK(options({"d/a.jsonl", "e/b.jsonl"}).output == "d/a-b.html");
}

TEST_CASE("mistakes in the options of ddplaunch report say what to do") {
  CHECK(mistake({}).starts_with("no event log given. Usage: ddplaunch report EVENT_LOG [EVENT_LOG]."));
  CHECK(
      mistake({"a", "b", "c"}) ==
      "ddplaunch report compares at most two event logs, and 'c' is the third. Remove it. See ddplaunch report --help");
  CHECK(mistake({"a", "b", "--run-id=r1"}).starts_with("--run-id selects a run of one event log"));
  CHECK(mistake({"a", ""}).starts_with("the name of the event log is empty"));
  CHECK(mistake({""}).starts_with("the name of the event log is empty"));
  CHECK(mistake({"run.html"}).starts_with("the report would overwrite the event log 'run.html'"));
  CHECK(mistake({"a", "--max-restarts=1"}).starts_with("unknown option --max-restarts"));
}

TEST_CASE("the help of ddplaunch report lists each of its options in at most 80 columns") {
  const auto result = parse({"--help"});
  REQUIRE(std::holds_alternative<Information>(result));
  const std::string help = std::get<Information>(result).text;
  CHECK(help == subcommand_help(*find_subcommand("report")));
  for (const OptionInfo& option : report_options()) {
    CAPTURE(option.name());
    CHECK(help.find("--" + option.name()) != std::string::npos);
  }
  for (const std::string& line : ddp::base::split(help, '\n')) CHECK(line.size() <= 80);
}

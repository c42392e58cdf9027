#include "launcher/start/plan/output_plan.h"

#include "launcher/start/plan/launch_plan.h"
#include "support/catch.h"
#include "support/situation.h"

using namespace ddp::launcher;

namespace {

LaunchPlan decide(const Situation& situation, int workers = 2) {
  LaunchPlan plan;
  plan.workers = workers;
  plan_output(situation.options, situation.facts, plan);
  return plan;
}

// Returns flags of standard output, then of standard error: c for console, f for file, t for tagged; "-" for none.
std::string flags(const LaunchPlan& decision, std::size_t local_rank) {
  const auto text = [](const StreamPlan& stream) {
    std::string flags = std::string(stream.to_console ? "c" : "") + (stream.to_file ? "f" : "");
    if (stream.to_console && stream.tagged) flags += "t";
    return flags.empty() ? "-" : flags;
  };
  const WorkerOutputPlan& worker = decision.output.workers.at(local_rank);
  return text(worker.out) + " " + text(worker.err);
}

Situation torchrun() {
  return Situation().mode(CompatibilityMode::torchrun);
}

}  // namespace

TEST_CASE("several workers have tags and merged lines, and a single worker owns the console") {
  CHECK(decide(Situation()).output.tag == "[${rank}] ");
  CHECK(decide(Situation()).output.collapse);
  CHECK(flags(decide(Situation()), 1) == "ct ct");
  CHECK(decide(Situation(), 1).output.tag.empty());
  CHECK_FALSE(decide(Situation(), 1).output.collapse);
  CHECK(decide(Situation()).files.kind == RunFiles::Kind::temporary);
}

TEST_CASE("tag and line merging can be configured") {
  Situation situation;
  situation.options.tag = "${node}: ";
  CHECK(decide(situation, 1).output.tag == "${node}: ");
  situation.options.tag = "";
  CHECK(decide(situation).output.tag.empty());
  // Without a tag, a line would not show the ranks that it is from.
  CHECK_FALSE(decide(situation).output.collapse);
  situation.options.collapse = true;
  CHECK(decide(situation, 1).output.collapse);
}

TEST_CASE("a log directory alone receives all output, except under the name torchrun") {
  Situation situation;
  situation.options.log_dir = "logs";
  CHECK(decide(situation).files.log_dir == "logs");
  CHECK(flags(decide(situation), 0) == "cft cft");
  situation.options.compatibility_mode = CompatibilityMode::torchrun;
  CHECK(flags(decide(situation), 0) == "c c");
}

TEST_CASE("streams are redirected or copied, and tee decides about the console") {
  Situation situation;
  situation.options.redirects.all = 3;
  situation.options.tee.by_local_rank = {{1, StreamSelection::kStdout}};
  CHECK(flags(decide(situation), 0) == "f f");
  CHECK(flags(decide(situation), 1) == "cft f");
  CHECK(decide(situation).files.log_dir == "./ddp-logs");
  situation.options.log_dir = "logs";
  CHECK(decide(situation).files.log_dir == "logs");
  CHECK(flags(decide(situation), 0) == "f f");
}

TEST_CASE("under the name torchrun only copied streams are tagged") {
  Situation situation = torchrun();
  CHECK(flags(decide(situation), 1) == "c c");
  CHECK_FALSE(decide(situation).output.collapse);
  situation.options.tee.all = StreamSelection::kStderr;
  CHECK(flags(decide(situation), 1) == "c cft");
  CHECK(decide(situation).output.tag == "[${role}${local_rank}]:");
  situation.options.tag = "[${rank}] ";
  CHECK(flags(decide(situation), 1) == "ct cft");
}

TEST_CASE("torchrun's line prefix template is used under its name") {
  Situation situation = torchrun();
  situation.facts.environment = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=$role_name/${rank}/$local_rank $$"};
  CHECK(decide(situation).output.tag == "${role}/${rank}/${local_rank} $");
  situation.options.compatibility_mode = CompatibilityMode::native;
  CHECK(decide(situation).output.tag == "[${rank}] ");
}

TEST_CASE("under the name torchrun log files without a directory go to a temporary one") {
  Situation situation = torchrun();
  CHECK(decide(situation).files.kind == RunFiles::Kind::temporary);
  situation.options.tee.all = 3;
  CHECK(decide(situation).files.log_dir == "/tmp/torchelastic_01234567");
  situation.facts.environment = {"TMPDIR=/scratch"};
  CHECK(decide(situation).files.log_dir == "/scratch/torchelastic_01234567");
}

TEST_CASE("a filter of local ranks affects the console only") {
  Situation situation;
  situation.options.console_local_ranks = {1};
  situation.options.log_dir = "logs";
  CHECK(flags(decide(situation), 0) == "f f");
  CHECK(flags(decide(situation), 1) == "cft cft");
  situation.options.log_dir.reset();
  CHECK(flags(decide(situation), 0) == "- -");
}

TEST_CASE("without a place for files nothing is written, and a note says which options have no effect") {
  Situation situation = torchrun();
  situation.options.log_dir = "/dev/null";
  CHECK(decide(situation).notes.empty());
  situation.options.redirects.all = 3;
  situation.options.stdout_filters = {"loss"};
  CHECK(flags(decide(situation), 0) == "c c");
  CHECK(decide(situation).output.stdout_filters.empty());
  CHECK(mentions(decide(situation).notes, "--log-dir=/dev/null: no files are written"));
}

TEST_CASE("output filters require a file") {
  Situation situation;
  situation.options.stdout_filters = {"loss"};
  situation.options.stderr_filters = {"error"};
  CHECK(decide(situation).output.stdout_filters == std::vector<std::string>{"loss"});
  CHECK(decide(situation).output.stderr_filters == std::vector<std::string>{"error"});
  CHECK(decide(situation).files.log_dir == "./ddp-logs");
}

TEST_CASE("local ranks that do not exist are noted") {
  Situation situation;
  situation.options.redirects.by_local_rank = {{1, 3}, {9, 1}};
  situation.options.tee.by_local_rank = {{2, 1}};
  situation.options.console_local_ranks = {0, 5};
  const auto notes = decide(situation).notes;
  CHECK(mentions(notes, "--redirects names local rank 9, but there are 2 workers"));
  CHECK(mentions(notes, "--tee names local rank 2, but there are 2 workers"));
  CHECK(mentions(notes, "--local-ranks-filter names local rank 5, but there are 2 workers"));
}

TEST_CASE("a filter that hides all output is an error, except under the name torchrun or on several nodes") {
  Options options;
  LaunchPlan plan;
  plan.workers = 2;
  options.console_local_ranks = {5, 7};
  const auto failure = check_shown_ranks(options, plan);
  REQUIRE(failure);
  CHECK(failure->exit_code == 2);
  CHECK(failure->message ==
        "--local-ranks-filter=5, 7 matches none of the 2 workers, so that no output would be shown. Local ranks count "
        "from 0.");
  options.console_local_ranks = {1, 7};
  CHECK_FALSE(check_shown_ranks(options, plan));
  options.console_local_ranks = {7};
  options.compatibility_mode = CompatibilityMode::torchrun;
  CHECK_FALSE(check_shown_ranks(options, plan));
}

TEST_CASE("colours are used on terminals unless the user asks for them elsewhere") {
  Situation situation;
  CHECK_FALSE(decide(situation).output.color);
  situation.options.color = Color::always;
  CHECK(decide(situation).output.color);
  situation.options.color = Color::automatic;
  situation.facts.console_is_terminal = true;
  CHECK(decide(situation).output.color);
  situation.facts.environment = {"NO_COLOR=1"};
  CHECK_FALSE(decide(situation).output.color);
  situation.facts.environment = {"NO_COLOR=", "NO_COLORS=1", "XNO_COLOR=1"};
  CHECK(decide(situation).output.color);
  situation.facts.environment = {"TERM=dumb"};
  CHECK_FALSE(decide(situation).output.color);
  situation.facts.environment = {};
  situation.options.color = Color::never;
  CHECK_FALSE(decide(situation).output.color);
}

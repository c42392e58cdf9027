#include "launcher/see/explain/explanation.h"

#include <string>

#include "launcher/see/explain/explanation_text.h"
#include "support/catch.h"

namespace ddp::launcher {
namespace {

const Cause kLostPeer{.id = "lost",
                      .patterns = {},
                      .proof = Proof::lost_peer,
                      .cause = "It lost a rank.",
                      .remedy = "Look there.",
                      .cause_zh = "",
                      .remedy_zh = ""};
const Cause kKnown{.id = "known",
                   .patterns = {},
                   .proof = Proof::failure,
                   .cause = "It is known.",
                   .remedy = "Do it.",
                   .cause_zh = "",
                   .remedy_zh = ""};

Failure failure(int rank, std::uint64_t line, const std::string& message, const Cause* cause = nullptr) {
  return {.rank = rank,
          .at = {"x.log", line},
          .message = message,
          .place = "",
          .cause = cause,
          .form = Form::exception,
          .standing = Standing::said};
}

Explanation explain_one(const LogFindings& log, std::optional<HangVerdict> hang = {}) {
  return explain({&log, 1}, std::move(hang));
}

TEST_CASE("the first failure in a file is listed first, and lost peers follow") {
  LogFindings log;
  log.failures = {failure(0, 1, "Connection closed", &kLostPeer), failure(3, 2, "known words", &kKnown),
                  failure(1, 9, "KeyError: 1")};
  const auto explanation = explain_one(log);
  CHECK(explanation.cause() == &kKnown);
  CHECK(explanation.is_certain());
  CHECK(explanation_text(explanation) ==
        "rank 3 failed first: known words\n  in x.log:2\n  cause: It is known.\n  try: Do it.\n"
        "  more: docs/reference/known-errors.md#known\n"
        "then: rank 1: KeyError: 1 (x.log:9)\nthen: rank 0: Connection closed (x.log:1)\n");
}

TEST_CASE("an error of the program itself is shown without a known cause") {
  LogFindings log;
  log.failures = {failure(1, 5, "KeyError: 'a'")};
  const auto explanation = explain_one(log);
  CHECK(explanation.cause() == nullptr);
  CHECK_FALSE(explanation.is_certain());
  CHECK_THAT(explanation_text(explanation), Catch::StartsWith("rank 1 failed: KeyError: 'a'\n"));
}

TEST_CASE("the uncaught one of two tracebacks of a rank counts") {
  LogFindings log;
  log.failures = {failure(1, 5, "ConnectionError: x"), failure(1, 9, "KeyError: 'a'")};
  CHECK(explain_one(log).failures.front().first.at.line == 5);
  log.failures[1].standing = Standing::uncaught;
  CHECK(explain_one(log).failures.front().first.at.line == 9);
  log.failures[0].standing = Standing::uncaught;
  CHECK(explain_one(log).failures.front().first.at.line == 5);
}

TEST_CASE("text before an uncaught exception is its cause only if it matches a known cause") {
  LogFindings log;
  log.failures = {failure(1, 5, "known words", &kKnown), failure(1, 9, "AssertionError: a")};
  log.failures[0].form = Form::words;
  log.failures[1].standing = Standing::uncaught;
  for (const std::optional<int> rank : {std::optional(1), std::optional<int>()}) {
    log.failures[0].rank = rank;
    const auto explanation = explain_one(log);
    CHECK(explanation.cause() == nullptr);
    CHECK(explanation.failures.front().first.message == "AssertionError: a");
    CHECK_THAT(explanation_text(explanation), Catch::Contains("may have been handled: rank 1: known words") ||
                                                  Catch::Contains("may have been handled: known words"));
  }
  log.failures[0].rank = 0;  // of another rank
  CHECK(explain_one(log).cause() == &kKnown);
  log.failures[0].standing = Standing::uncaught;  // a launcher says it
  log.failures[0].rank.reset();
  CHECK(explain_one(log).cause() == &kKnown);
}

TEST_CASE("the line before the launcher's message is shown only if nothing else is known") {
  LogFindings log{.ends = {{.rank = 2, .text = "exit code 2", .quoted = "t.py: error: bad", .at = {"x.log", 30}}},
                  .has_failed = true};
  log.failures = {failure(0, 40, "ChildFailedError: ")};
  const auto explanation = explain_one(log);
  CHECK_FALSE(explanation.is_certain());
  CHECK(explanation.failures.front().first.message == "exit code 2; the last line before it: t.py: error: bad");
  CHECK(explanation.secondary.empty());
  // A rank that has lost another one says so itself.
  log.failures = {failure(2, 20, "Connection closed", &kLostPeer)};
  CHECK(explain_one(log).failures.empty());
}

TEST_CASE("an error of a program that a rank started belongs to the rank") {
  LogFindings log;
  log.failures = {failure(0, 1, "subprocess.CalledProcessError: Command '['/bin/sh', '-c', 'x']' returned 4.")};
  CHECK(explain_one(log).failures.size() == 1);
  log.failures = {
      failure(0, 1, "subprocess.CalledProcessError: Command '['/opt/bin/python3.11', 't.py']' returned 1.")};
  CHECK(explain_one(log).failures.empty());
}

TEST_CASE("the ranks that monitored_barrier names are the culprits") {
  LogFindings log;
  log.failures = {
      failure(1, 1, "Connection closed", &kLostPeer),
      failure(0, 2, "RuntimeError: [Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 4000 ms", &kLostPeer)};
  const auto explanation = explain_one(log);
  REQUIRE(explanation.hang);
  CHECK(explanation.hang->ranks == std::vector<int>{2, 3});
  CHECK_THAT(explanation_text(explanation), Catch::StartsWith("ranks 2, 3 have not reached the monitored barrier"));
  log.failures[1].message = "RuntimeError: Rank failed to pass monitoredBarrier in";
  CHECK_FALSE(explain_one(log).hang);
}

TEST_CASE("an abort of one local rank is not caused by the failure of another one") {
  LogFindings log;
  log.failures = {failure(1, 1, "Connection closed", &kLostPeer), failure(2, 2, "std::out_of_range: x")};
  log.failures[1].form = Form::abort;
  log.failures[1].rank.reset();
  CHECK(explain_one(log).failures.empty());
  log.failures[0].local_rank = 1;
  log.failures[1].local_rank = 2;
  CHECK(explain_one(log).failures.size() == 1);
}

TEST_CASE("the launcher's message about a crash that Python reported is not a second failure") {
  LogFindings log;
  log.failures = {failure(2, 1, "Fatal Python error: Segmentation fault"),
                  failure(0, 9, "failed (exitcode: -11)", &kKnown)};
  log.failures[0].form = Form::crash;
  log.failures[1].form = Form::words;
  log.failures[1].rank.reset();
  log.failures[0].standing = log.failures[1].standing = Standing::uncaught;
  const auto explanation = explain_one(log);
  REQUIRE(explanation.failures.size() == 1);
  CHECK(explanation.failures[0].first.rank == 2);
  CHECK(explanation.cause() == &kKnown);
}

TEST_CASE("a printed traceback counts only if a launcher reports that the job failed") {
  LogFindings log;
  log.failures = {failure(0, 1, "known words", &kKnown)};
  log.failures[0].standing = Standing::printed;
  CHECK(explain_one(log).cause() == nullptr);
  CHECK(explain_one(log).failures.empty());
  log.has_failed = true;
  CHECK(explain_one(log).cause() == &kKnown);
}

TEST_CASE("an exception of an unknown rank counts as handled if the first rank that ended has its own exception") {
  LogFindings log{.ends = {{.rank = 0, .text = "exit code 1", .at = {"x.log", 30}}}, .has_failed = true};
  log.failures = {failure(7, 1, "FileNotFoundError: a"), failure(0, 9, "TypeError: b")};
  log.failures[0].rank.reset();
  log.failures[0].standing = log.failures[1].standing = Standing::uncaught;
  CHECK(explain_one(log).failures.front().first.message == "TypeError: b");
  log.ends[0].rank = 1;
  CHECK(explain_one(log).failures.front().first.message == "FileNotFoundError: a");
}

TEST_CASE("a lost peer and a failure before a restart are not causes") {
  LogFindings log{.ends = {{.rank = 1, .text = "exit code 1", .at = {"x.log", 30}}}, .has_failed = true};
  log.failures = {failure(1, 1, "Connection closed", &kLostPeer), failure(1, 9, "known words", &kKnown)};
  log.failures[0].standing = Standing::went_on;
  log.failures[1].standing = Standing::restarted;
  CHECK(explain_one(log).cause() == nullptr);
  log.failures[1].standing = Standing::went_on;
  CHECK(explain_one(log).cause() == &kKnown);
}

TEST_CASE("a task that srun reports as killed counts as killed") {
  const LogFindings log{.ends = {{.rank = 1, .text = "Killed", .at = {"x.log", 30}}}, .has_failed = true};
  CHECK(explain_one(log).cause()->id == "worker-killed");
}

TEST_CASE("a lost peer or a timeout is explained if no cause is certain") {
  LogFindings log;
  log.failures = {failure(1, 1, "Connection closed", &kLostPeer)};
  CHECK_THAT(explanation_text(explain_one(log)), Catch::Contains("\n  it means: ") && Catch::Contains("\n  try: "));
}

TEST_CASE("an error that the program may have handled is explained if nothing else is known") {
  LogFindings log;
  log.failures = {failure(1, 1, "bad", &kKnown)};
  log.failures[0].standing = Standing::printed;
  const auto explanation = explain_one(log);
  CHECK_FALSE(explanation.is_certain());
  CHECK_THAT(explanation_text(explanation), Catch::Contains("may have been handled: rank 1: bad (x.log:1)\n"
                                                            "  it means: It is known.\n  try: Do it.\n"));
}

TEST_CASE("ranks that failed in the same way are grouped") {
  LogFindings log;
  for (const int rank : {2, 0, 1})
    log.failures.push_back(failure(rank, static_cast<std::uint64_t>(10 - rank), "x " + std::to_string(rank)));
  const auto explanation = explain_one(log);
  REQUIRE(explanation.failures.size() == 1);
  CHECK(explanation.failures[0].ranks == std::vector<int>{0, 1, 2});
  CHECK(explanation.failures[0].first.rank == 2);
  CHECK_THAT(explanation_text(explanation), Catch::Contains("ranks 0, 1 failed in the same way"));
}

TEST_CASE("failures in several files are ordered only by their times") {
  LogFindings one;
  LogFindings other;
  one.failures = {failure(0, 1, "KeyError: 'a'", &kKnown)};
  other.failures = {failure(1, 1, "ValueError: b")};
  other.failures[0].at.file = "y.log";
  std::vector<LogFindings> logs = {one, other};
  CHECK_FALSE(explain(logs, {}).is_ordered);
  CHECK(explain(logs, {}).cause() == nullptr);
  CHECK_THAT(explanation_text(explain(logs, {})), Catch::StartsWith("these failures have no order"));
  logs[0].failures[0].time = LogTime{LogTime::Clock::utc, 20};
  logs[1].failures[0].time = LogTime{LogTime::Clock::utc, 10};
  CHECK(explain(logs, {}).failures.front().first.rank == 1);
  logs[1].failures[0].time->clock = LogTime::Clock::local;
  CHECK_FALSE(explain(logs, {}).is_ordered);
}

TEST_CASE("the rank of a failure is taken from the launcher's message if the failure lacks it") {
  LogFindings log{.ends = {{.rank = 7, .text = "exit code 1", .at = {"x.log", 30}}}, .has_failed = true};
  log.failures = {failure(0, 1, "known words", &kKnown)};
  log.failures[0].rank.reset();
  CHECK(explain_one(log).failures.front().first.rank == 7);
}

TEST_CASE("a failure after which the program continued is a cause only if its launcher reports a failed job") {
  LogFindings log;
  log.failures = {failure(0, 1, "known words", &kKnown)};
  log.failures[0].standing = Standing::went_on;
  CHECK(explain_one(log).cause() == nullptr);
  CHECK_THAT(explanation_text(explain_one(log)), Catch::Contains("seen, but it was or may have been handled"));
  log.has_failed = true;
  CHECK(explain_one(log).cause() == &kKnown);
}

TEST_CASE("an error that contradicts how the rank ended counts as handled") {
  LogFindings log{.ends = {{.rank = 2, .text = "killed by SIGKILL", .at = {"x.log", 30}}}, .has_failed = true};
  log.failures = {failure(2, 1, "known words", &kKnown)};
  CHECK(explain_one(log).cause()->id == "worker-killed");
  CHECK_FALSE(explain_one(log).caught.empty());
  log.ends[0].text = "exit code 6";
  CHECK(explain_one(log).cause() == nullptr);
  log.ends[0].text = "exit code 1";
  CHECK(explain_one(log).cause() == &kKnown);
}

TEST_CASE("an error of a rank that the launcher does not name counts only if it was uncaught") {
  LogFindings log{.ends = {{.rank = 1, .text = "exit code 1", .at = {"x.log", 30}}}, .has_failed = true};
  log.failures = {failure(3, 1, "known words", &kKnown)};
  CHECK(explain_one(log).cause() == nullptr);
  log.failures[0].standing = Standing::uncaught;
  CHECK(explain_one(log).cause() == &kKnown);
  log.ends[0].is_own = true;
  CHECK(explain_one(log).cause() == nullptr);
}

TEST_CASE("an exception in a thread does not end the program") {
  LogFindings log;
  log.failures = {failure(0, 1, "known words", &kKnown)};
  log.failures[0].standing = Standing::in_thread;
  CHECK(explain_one(log).cause() == nullptr);
  log.failures[0].cause = nullptr;
  CHECK(explain_one(log).failures.size() == 1);
}

TEST_CASE("the report says that output is missing if all ranks only lost another rank") {
  LogFindings log{.ranks = {0, 1, 2}};
  log.failures = {failure(0, 1, "closed", &kLostPeer), failure(2, 2, "closed", &kLostPeer)};
  const auto explanation = explain_one(log);
  CHECK_FALSE(explanation.is_certain());
  CHECK_THAT(explanation_text(explanation), Catch::Contains("missing: an error of rank 1, which printed none"));
  CHECK_THAT(explanation_text(explanation), Catch::Contains("seen: ranks 0, 2: closed (x.log:1)"));
}

TEST_CASE("records of collectives decide if no rank failed by itself") {
  const HangVerdict hang{.text = "rank 1 has not called all_reduce #5",
                         .remedy = "Look.",
                         .ranks = {1},
                         .is_certain = true,
                         .missing = {}};
  LogFindings log;
  CHECK(explain_one(log, hang).is_certain());
  CHECK_THAT(explanation_text(explain_one(log, hang)),
             Catch::StartsWith("rank 1 has not called all_reduce #5\n  try: Look.\n"));
  CHECK_THAT(explanation_json(explain_one(log, hang)), Catch::Contains("\"certain\": true"));
  log.failures = {failure(0, 1, "known words", &kKnown)};
  CHECK(explain_one(log, hang).cause() == &kKnown);
}

}  // namespace
}  // namespace ddp::launcher

#include "launcher/start/doctor/run_checks.h"

#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "base/file.h"
#include "support/catch.h"

using namespace ddp::launcher::doctor;
using namespace std::chrono_literals;

namespace {

Findings answer(const Node& node) {
  return {ok("workers: " + std::to_string(node.workers)), warn("a", "b")};
}
Findings hang(const Node&) {
  while (true) ::pause();
}
Findings crash(const Node&) {
  ::raise(SIGKILL);
  return {};
}
Findings throw_error(const Node&) {
  throw std::runtime_error("no such thing");
}
Findings say_much(const Node&) {
  return Findings(2000, ok(std::string(100, 'x')));
}
Findings say_nothing(const Node&) {
  return {};
}

Findings tell_score(const Node&) {
  return {ok(ddp::base::read_file("/proc/self/oom_score_adj"))};
}
// Answers, and lives on.
Findings answer_and_hang(const Node& node) {
  if (::fork() == 0) hang(node);
  return answer(node);
}

Finding first_of(const Check& check) {
  const Findings findings = run_checks(std::span(&check, 1), Node{}, 10s);
  REQUIRE_FALSE(findings.empty());
  return findings.front();
}

}  // namespace

TEST_CASE("findings come in the order of the checks, with their names") {
  Node node;
  node.workers = 3;
  const Check checks[] = {{"one", answer}, {"none", say_nothing}, {"two", answer}};
  const Findings findings = run_checks(checks, node, 10s);
  CHECK(findings == Findings{{"one", Grade::ok, "workers: 3", ""},
                             {"one", Grade::warn, "a", "b"},
                             {"two", Grade::ok, "workers: 3", ""},
                             {"two", Grade::warn, "a", "b"}});
}

TEST_CASE("a check that hangs is a finding, and does not keep the others from answering") {
  const Check checks[] = {{"hangs", hang, Grade::fail}, {"answers", answer}};
  const Findings findings = run_checks(checks, Node{}, 300ms);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].grade == Grade::fail);
  CHECK(findings[0].text.starts_with("no answer within "));
  CHECK(findings[1].text == "workers: 1");
}

TEST_CASE("a check that crashes or throws is unknown, with the reason") {
  CHECK(first_of({"crashes", crash}) ==
        Finding{"crashes", Grade::unknown, "the check itself ended early: killed by SIGKILL", ""});
  CHECK(first_of({"throws", throw_error}) ==
        Finding{"throws", Grade::unknown, "it could not be checked: no such thing", ""});
}

TEST_CASE("a check that says more than a mebibyte is cut off, and does not hang") {
  const Check check{"endless", [](const Node&) { return Findings(20'000, ok(std::string(100, 'x'))); }};
  CHECK(run_checks(std::span(&check, 1), Node{}, 10s) ==
        Findings{{"endless", Grade::unknown, "the check says too much to be shown", ""}});
}

TEST_CASE("more findings than a pipe holds arrive whole") {
  const Check check{"much", say_much};
  CHECK(run_checks(std::span(&check, 1), Node{}, 10s).size() == 2000);
}

TEST_CASE("a check is the first to be killed where the memory of the node does not suffice") {
  CHECK(first_of({"score", tell_score}).text == "1000\n");
}

TEST_CASE("an answer counts even if the process does not end") {
  const Check check = {"slow", answer_and_hang};
  const Findings findings = run_checks(std::span(&check, 1), Node{}, 300ms);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].text == "workers: 1");
}

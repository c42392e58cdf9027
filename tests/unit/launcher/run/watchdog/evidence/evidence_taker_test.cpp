#include "launcher/run/watchdog/evidence/evidence_taker.h"

#include <future>

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

Evidence take(std::vector<Question> questions) {
  net::EventLoop loop;
  RankProbe host;
  EvidenceTaker taker(loop, host);
  Evidence result;
  bool is_done = false;
  taker.take({{3, 0}}, StackMeans::any, std::move(questions), [&](Evidence evidence) {
    result = std::move(evidence);
    is_done = true;
    loop.stop();
  });
  const auto timer = loop.at(std::chrono::steady_clock::now() + 4 * limits::kStackTime, [&] { loop.stop(); });
  if (!is_done) loop.run();
  CHECK(is_done);
  return result;
}

Question answers(const std::string& name) {
  return {name, [name](net::Deadline) { return EvidenceSource{name, "all is well", {}, {}}; }};
}

std::vector<std::string> names_of(const std::vector<Question>& questions) {
  std::vector<std::string> names;
  for (const Question& question : questions) names.push_back(question.name);
  return names;
}

}  // namespace

TEST_CASE("only stacks are taken if no evidence source is available") {
  const Evidence evidence = take({});
  REQUIRE(evidence.stacks.size() == 1);
  CHECK(evidence.stacks[0].rank == 3);
  CHECK(evidence.sources.empty());
  CHECK_FALSE(evidence.empty());
  CHECK(Evidence().empty());
}

TEST_CASE("all evidence sources are asked at once and listed in a fixed order") {
  std::promise<void> second_was_asked;
  const Question first{"first", [&](net::Deadline) {
                         second_was_asked.get_future().wait();
                         return EvidenceSource{"first", "", {}, {"nobody there"}};
                       }};
  const Question second{"second", [&](net::Deadline) {
                          second_was_asked.set_value();
                          return EvidenceSource{"second", "all is well", {}, {}};
                        }};
  const Evidence evidence = take({first, second});
  REQUIRE(evidence.sources.size() == 2);
  CHECK(evidence.sources[0] == EvidenceSource{"first", "", {}, {"nobody there"}});
  CHECK(evidence.sources[1] == EvidenceSource{"second", "all is well", {}, {}});
}

TEST_CASE("an evidence source that is late is left out and named", "[slow]") {
  const auto never = std::make_shared<std::promise<void>>();
  const Question slow{"slow", [never](net::Deadline) {
                        never->get_future().wait();
                        return EvidenceSource{"slow", "too late", {}, {}};
                      }};
  const auto began = std::chrono::steady_clock::now();
  const Evidence evidence = take({slow, answers("quick")});
  CHECK(std::chrono::steady_clock::now() - began < 6 * limits::kStackTime);
  REQUIRE(evidence.sources.size() == 2);
  CHECK(evidence.sources[0] == EvidenceSource{"slow", "", {}, {"did not answer in time"}});
  CHECK(evidence.sources[1].text == "all is well");
  never->set_value();
}

TEST_CASE("the workers' environment determines which evidence sources are asked") {
  using Lines = std::vector<std::string>;
  CHECK(questions_for(Lines{"HOME=/root"}, {0}).empty());
  CHECK(names_of(questions_for(Lines{"NCCL_RAS_ADDR=127.1.2.3:28028"}, {0})) == Lines{"NCCL RAS"});
  const auto off = questions_for(Lines{"NCCL_RAS_ADDR=127.1.2.3:28028", "NCCL_RAS_ENABLE=0"}, {0});
  REQUIRE(off.size() == 1);
  CHECK(off[0].ask({}) == EvidenceSource{"NCCL RAS", "", {}, {"NCCL_RAS_ENABLE=0 has switched it off"}});
  CHECK(names_of(questions_for(Lines{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/p", "NCCL_RAS_ADDR=[::1]:1"}, {0})) ==
        Lines{"NCCL RAS", "flight recorder"});
}

TEST_CASE("an invalid address of NCCL RAS is reported") {
  for (const std::string address : {"", "nonsense", "localhost:", "localhost:http", ":99999"}) {
    const auto questions = questions_for(std::vector<std::string>{"NCCL_RAS_ADDR=" + address}, {0});
    REQUIRE(questions.size() == 1);
    const EvidenceSource source = questions[0].ask(std::chrono::steady_clock::now() + std::chrono::seconds(1));
    CHECK(source.missing == std::vector<std::string>{"NCCL_RAS_ADDR=" + address + " is not of the form HOST:PORT"});
  }
}

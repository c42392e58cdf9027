#include "launcher/run/watchdog/evidence/evidence_taker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/watchdog/evidence/flight_recorder.h"
#include "launcher/run/watchdog/evidence/ras_client.h"
#include "launcher/start/facts/node_facts.h"
#include "wire/worker_env.h"

namespace ddp::launcher {

namespace {

Question question_to_ras(const RasAddress& address, const std::string& variable) {
  return {"NCCL RAS", [=](net::Deadline deadline) {
            if (address.port != 0) return ask_ras(address.host, address.port, deadline);
            return EvidenceSource{"NCCL RAS", "", {}, {"NCCL_RAS_ADDR=" + variable + " is not of the form HOST:PORT"}};
          }};
}

}  // namespace

std::vector<Question> questions_for(std::span<const std::string> environment, std::vector<int> ranks) {
  std::vector<Question> questions;
  const auto variable = find_variable(environment, wire::env::kNcclRasAddress);
  if (const auto address = ras_address_in(environment)) {
    questions.push_back(question_to_ras(*address, *variable));
  } else if (variable) {
    questions.push_back({"NCCL RAS", [](net::Deadline) {
                           return EvidenceSource{"NCCL RAS", "", {}, {"NCCL_RAS_ENABLE=0 has switched it off"}};
                         }});
  }
  if (auto recorders = find_flight_recorders(environment)) {
    questions.push_back({"flight recorder", [recorders = *recorders, ranks = std::move(ranks)](net::Deadline deadline) {
                           return ask_flight_recorders(recorders, ranks, deadline);
                         }});
  }
  return questions;
}

void EvidenceTaker::take(const std::vector<StackTarget>& targets, StackMeans means, std::vector<Question> questions,
                         Done done) {
  done_ = std::move(done);
  has_stacks_ = false;
  ask(std::move(questions));
  stacks_.take(targets, means, [this](std::vector<RankStacks> stacks) {
    taken_ = std::move(stacks);
    has_stacks_ = true;
    finish_if_done();
  });
}

void EvidenceTaker::ask(std::vector<Question> questions) {
  if (questions.empty()) return;
  const net::Deadline began = std::chrono::steady_clock::now();
  timer_ = loop_.at(began + limits::kStackTime, [this] {
    timer_.reset();
    finish_if_done();
  });
  for (Question& question : questions) {
    Asked& asked = asked_.emplace_back(Asked{question.name,
                                             base::SideThread<EvidenceSource>([ask = std::move(question.ask), began] {
                                               return ask(began + limits::kStackToolTime);
                                             }),
                                             nullptr,
                                             {}});
    asked.watch = loop_.watch_readable(asked.thread.ready(), [this, &asked] {
      asked.answer = asked.thread.result().value_or(
          EvidenceSource{asked.name, "", {}, {"was not queried, because no thread can be started for it"}});
      const bool is_open = std::ranges::any_of(asked_, [](const Asked& one) { return !one.answer; });
      if (!is_open) timer_.reset();
      finish_if_done();
    });
  }
}

void EvidenceTaker::finish_if_done() {
  if (!has_stacks_ || timer_) return;
  Evidence evidence{std::move(taken_), {}};
  for (Asked& asked : asked_) {
    EvidenceSource source = asked.answer.value_or(EvidenceSource{asked.name, "", {}, {"did not answer in time"}});
    const bool says_nothing = source.text.empty() && source.missing.empty();
    if (!says_nothing) evidence.sources.push_back(std::move(source));
  }
  asked_.clear();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(evidence));
}

}  // namespace ddp::launcher

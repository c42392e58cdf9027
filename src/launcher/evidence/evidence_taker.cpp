#include "launcher/evidence/evidence_taker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/evidence/flight_recorder.h"
#include "launcher/evidence/ras_client.h"
#include "launcher/plan/host_facts.h"
#include "wire/worker_env.h"

namespace ddp::launcher {

// A name that is looked up, or a file system, may hang: the threads are left behind when the time is over.
struct EvidenceTaker::Asked {
  struct Answer {
    std::string name;
    Witness witness;
    std::atomic<bool> is_there = false;
  };
  explicit Asked(const std::vector<Question>& questions) : answers(questions.size()), open(questions.size()) {
    for (std::size_t i = 0; i < questions.size(); ++i) answers[i].name = questions[i].name;
  }

  void answer(std::size_t i, Witness witness) {
    answers[i].witness = std::move(witness);
    answers[i].is_there = true;
    if (--open > 0) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(ready.get(), &one, sizeof one);
  }

  std::vector<Answer> answers;
  std::atomic<std::size_t> open;
  base::UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

namespace {

Question question_to_ras(const std::string& address) {
  const std::size_t colon = std::min(address.rfind(':'), address.size());
  const auto port =
      base::parse_integer(std::string_view(address).substr(std::min(colon + 1, address.size())), 1, 65535);
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {"NCCL RAS", [=](net::Deadline deadline) {
            if (port) return ask_ras(host, static_cast<std::uint16_t>(*port), deadline);
            return Witness{"NCCL RAS", "", {}, {"NCCL_RAS_ADDR is not HOST:PORT: " + address}};
          }};
}

}  // namespace

std::vector<Question> questions_for(std::span<const std::string> environment, std::vector<int> ranks) {
  const std::vector<std::string> variables(environment.begin(), environment.end());
  std::vector<Question> questions;
  const auto address = find_variable(variables, wire::env::kNcclRasAddress);
  const bool has_ras = find_variable(variables, wire::env::kNcclRasEnable) != "0";
  if (address && has_ras) questions.push_back(question_to_ras(*address));
  if (auto recorders = find_flight_recorders(environment)) {
    questions.push_back({"flight recorder", [recorders = *recorders, ranks = std::move(ranks)](net::Deadline deadline) {
                           return ask_flight_recorders(recorders, ranks, deadline);
                         }});
  }
  return questions;
}

EvidenceTaker::~EvidenceTaker() = default;

void EvidenceTaker::take(const std::vector<StackTarget>& targets, StackMeans means, std::vector<Question> questions,
                         Done done) {
  done_ = std::move(done);
  has_stacks_ = false;
  has_witnesses_ = questions.empty();
  const net::Deadline began = std::chrono::steady_clock::now();
  asked_ = std::make_shared<Asked>(questions);
  const auto over = [this] {
    has_witnesses_ = true;
    finish_if_done();
  };
  if (!questions.empty()) {
    answered_ = loop_.watch_readable(asked_->ready.get(), over);
    timer_ = loop_.at(began + limits::kStackTime, over);
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    try {
      std::thread([asked = asked_, i, ask = questions[i].ask, began] {
        asked->answer(i, ask(began + limits::kStackToolTime));
      }).detach();
    } catch (const std::system_error& error) {
      asked_->answer(i, {questions[i].name, "", {}, {"could not be asked: " + std::string(error.what())}});
    }
  }
  stacks_.take(targets, means, [this](std::vector<RankStacks> stacks) {
    taken_ = std::move(stacks);
    has_stacks_ = true;
    finish_if_done();
  });
}

std::vector<Witness> EvidenceTaker::answers() {
  std::vector<Witness> witnesses;
  for (Asked::Answer& answer : asked_->answers) {
    witnesses.push_back(answer.is_there ? answer.witness : Witness{answer.name, "", {}, {"gave no answer in time"}});
  }
  return witnesses;
}

void EvidenceTaker::finish_if_done() {
  if (!has_stacks_ || !has_witnesses_) return;
  answered_.reset();
  timer_.reset();
  Evidence evidence{std::move(taken_), answers()};
  asked_.reset();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(evidence));
}

}  // namespace ddp::launcher

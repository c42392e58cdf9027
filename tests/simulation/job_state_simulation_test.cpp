// Runs thousands of random jobs, each from a seed that is printed if a rule is broken.
#include <random>

#include "support/catch.h"
#include "support/job_fixture.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

class RandomJob {
 public:
  explicit RandomJob(unsigned seed) : random_(seed), workers_(1 + pick(6)), job_(workers_) {}

  void live() {
    alive_.assign(static_cast<std::size_t>(workers_), false);
    for (int i = 0; i < workers_ && !job_.state().finished(); ++i) {
      if (pick(40) == 0) {
        job_.spawn_fails(i, 126);
        break;
      }
      job_.start_worker(i);
      alive_[static_cast<std::size_t>(i)] = true;
      started_ = i + 1;
    }
    for (int event = 0; event < 200 && !job_.state().finished(); ++event) something_happens();
    // Whatever has happened, the job ends within grace and wait once all workers are asked to end.
    if (!job_.state().finished()) job_.launcher_gets(SIGTERM);
    job_.passes(1h);
  }

  void check() const {
    REQUIRE(job_.state().finished());
    const JobOutcome outcome = job_.outcome();
    const bool has_cause = !std::holds_alternative<std::monostate>(outcome.cause);
    CHECK(outcome.status.success() == !has_cause);
    CHECK_FALSE(job_.state().alarm().has_value());
    // Every worker that still runs is reported as unkillable.
    std::size_t alive = 0;
    for (const bool is_alive : alive_) alive += is_alive ? 1 : 0;
    CHECK(outcome.unkillable.size() == alive);
    // SIGKILL is never sent before another request to end.
    for (int i = 0; i < started_; ++i) {
      const std::string signals = job_.signals_to(i);
      const std::size_t kill = signals.find("g9");
      CHECK((kill == std::string::npos || std::min(signals.find("15"), signals.find("g2 ")) < kill));
    }
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void something_happens() {
    const int i = pick(workers_);
    const auto index = static_cast<std::size_t>(i);
    switch (pick(14)) {
      case 12:
        job_.launcher_gets(pick(2) == 0 ? SIGTSTP : SIGCONT);
        break;
      case 13:
        if (pick(10) == 0) job_.guardian_dies();
        if (pick(10) == 0) job_.passes(6min);
        break;
      case 0:
        job_.launcher_gets(pick(2) == 0 ? SIGINT : SIGUSR1);
        break;
      case 1:
      case 2:
      case 3:
        if (!alive_[index]) break;
        alive_[index] = false;
        pick(3) == 0 ? job_.killed(i, pick(2) == 0 ? SIGSEGV : SIGTERM)
                     : job_.exits(i, pick(3) == 0 ? 1 + pick(200) : 0);
        break;
      case 4:
        if (!alive_[index]) break;
        alive_[index] = false;
        job_.exits_as_secondary(i, 1);
        break;
      default:
        job_.passes(std::chrono::milliseconds(pick(3000)));
    }
  }

  std::mt19937 random_;
  int workers_;
  JobFixture job_;
  std::vector<bool> alive_;
  int started_ = 0;
};

}  // namespace

TEST_CASE("ten thousand random jobs all end with one cause and leave no worker behind") {
  for (unsigned seed = 0; seed < 10'000; ++seed) {
    INFO("seed " << seed);
    RandomJob job(seed);
    job.live();
    job.check();
  }
}

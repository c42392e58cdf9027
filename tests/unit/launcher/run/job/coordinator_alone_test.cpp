// Tests the coordinator of a job of one node. It has only its own node.
#include "support/catch.h"
#include "support/coordinator_job.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr auto kForEver = Coordinator::TimePoint::max();

struct JobAlone {
  explicit JobAlone(const CoordinatorOptions& options = {}, std::vector<wire::KeptImage> images = {})
      : coordinator(options, node("a"), now) {
    coordinator.finds(std::move(images));
    add(coordinator.begin(now));
  }

  JobAlone& says(const wire::ControlMessage& message) { return add(coordinator.heard(kOwnNode, "", message, now)); }
  JobAlone& fails() { return says(wire::NodeFailed{attempt, failure()}).says(wire::NodeEnded{attempt}); }
  JobAlone& passes(std::chrono::milliseconds time) {
    for (now += time; !is_through && coordinator.alarm() <= now;) add(coordinator.tick(now));
    return *this;
  }
  // Returns the last message to the node if it has this type, else std::nullopt.
  template <typename Message>
  std::optional<Message> last() const {
    const auto* message = heard.empty() ? nullptr : std::get_if<Message>(&heard.back());
    return message == nullptr ? std::nullopt : std::optional(*message);
  }

  Coordinator::TimePoint now{1h};
  Coordinator coordinator;
  int attempt = 0;
  std::vector<wire::ControlMessage> heard;
  int stores = 0;  // number of times that the store was emptied
  bool is_through = false;

 private:
  JobAlone& add(const std::vector<CoordinatorAction>& actions) {
    for (const CoordinatorAction& action : actions) {
      if (const auto* send = std::get_if<SendToNode>(&action)) heard.push_back(send->message);
      if (std::holds_alternative<EmptyStore>(action)) ++stores;
      if (std::holds_alternative<CoordinatorIsThrough>(action)) is_through = true;
    }
    if (const auto begins = last<wire::CoordinatorBegins>()) attempt = begins->attempt;
    return *this;
  }
};

wire::Cause repeatable_failure() {
  wire::Cause error = failure();
  error.error = "rank 1: KeyError at train.py:3 in f";
  return error;
}

// Returns the end of an attempt in which two ranks have kept this step.
wire::NodeEnded ended_after(std::int64_t step) {
  wire::NodeEnded ended{.attempt = 0, .progress = wire::Progress::some};
  const wire::KeptState own{.step = step, .bytes = 1, .kind = wire::StateKind::final, .world = 2};
  ended.kept = {own, own, own};
  ended.kept[1].rank = ended.kept[1].area = 1;
  ended.kept[2].kind = wire::StateKind::whole;
  return ended;
}

}  // namespace

TEST_CASE("a job of one node begins at once and ends when its workers have exited") {
  JobAlone job;
  REQUIRE(job.last<wire::CoordinatorBegins>());
  CHECK(job.last<wire::CoordinatorBegins>()->world_size == 2);
  CHECK(job.last<wire::CoordinatorBegins>()->node_count == 1);
  CHECK(job.coordinator.alarm() == kForEver);
  job.says(wire::NodeLeft{0, 0}).says(wire::NodeLeft{0, 1}).says(wire::NodeEnded{0});
  CHECK(job.last<wire::CoordinatorIsDone>() == wire::CoordinatorIsDone{});
  CHECK(job.is_through);
}

TEST_CASE("a job of one node is restarted with an empty store until no restarts remain") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  JobAlone job(options);
  job.fails();
  CHECK(job.last<wire::CoordinatorRestarts>() == wire::CoordinatorRestarts{"restart 1 of 1 in 0.1 s"});
  job.passes(ddp::limits::kRestartDelay - 1ms);
  CHECK(job.stores == 1);
  job.passes(1ms);
  REQUIRE(job.last<wire::CoordinatorBegins>());
  CHECK(job.last<wire::CoordinatorBegins>()->attempt == 1);
  CHECK(job.stores == 2);
  job.fails();
  REQUIRE(job.last<wire::CoordinatorIsDone>());
  CHECK(job.last<wire::CoordinatorIsDone>()->cause.text == "rank 5: exited with code 3");
  CHECK(job.last<wire::CoordinatorIsDone>()->cause.not_restarted == "ddplaunch gave up after 1 restart");
  CHECK(job.is_through);
}

TEST_CASE("a job that fails twice at the same step with the same error is not restarted again") {
  CoordinatorOptions options;
  options.max_restarts = 10;
  JobAlone job(options);
  const wire::Cause error = repeatable_failure();
  wire::NodeEnded ended = ended_after(7);
  job.says(wire::NodeFailed{0, error}).says(ended).passes(0ms);
  REQUIRE(job.attempt == 1);
  CHECK(job.last<wire::CoordinatorBegins>()->restore.step == 7);
  CHECK(job.last<wire::CoordinatorBegins>()->may_restart);
  ended.attempt = 1;
  job.says(wire::NodeFailed{1, error}).says(ended);
  REQUIRE(job.last<wire::CoordinatorIsDone>());
  const wire::Cause cause = job.last<wire::CoordinatorIsDone>()->cause;
  CHECK(cause.code == wire::CauseCode::repeated_error);
  CHECK(cause.not_restarted.find("the same error after step 7") != std::string::npos);
}

TEST_CASE("the same error at different steps does not stop the restarts") {
  CoordinatorOptions options;
  options.max_restarts = 10;
  JobAlone job(options);
  const wire::Cause error = repeatable_failure();
  wire::NodeEnded ended = ended_after(16);
  ended.kept.push_back(ended.kept[0]);
  ended.kept[3].step = 20;  // which only one rank has kept
  job.says(wire::NodeFailed{0, error}).says(ended).passes(0ms);
  REQUIRE(job.attempt == 1);
  CHECK(job.last<wire::CoordinatorBegins>()->restore.lost_steps == 4);
  ended.attempt = 1;
  ended.kept[3].step = 21;
  job.says(wire::NodeFailed{1, error}).says(ended).passes(0ms);
  CHECK(job.attempt == 2);
}

TEST_CASE("the coordinator sends --image-cost to the nodes, or 0 in an attempt after which no restart is left") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  options.image_cost = 0.01;
  JobAlone job(options);
  CHECK(job.last<wire::CoordinatorBegins>()->image_cost == 0.01);
  job.fails().passes(1s);
  CHECK(job.attempt == 1);
  CHECK(job.last<wire::CoordinatorBegins>()->image_cost == 0);
}

TEST_CASE("a job restores the newest image and gets a later start time than that image") {
  CoordinatorOptions options;
  options.image_cost = 0.01;
  options.has_image_dir = true;
  options.job_began = 1000;
  JobAlone job(options, {{3000, 1, 7, 2, false}, {2000, 0, 90, 2, false}});
  const auto begins = job.last<wire::CoordinatorBegins>();
  REQUIRE(begins);
  CHECK(begins->restore.image == "image-3000-1-step-7-of-2-parts");
  CHECK(begins->restore.ranks.size() == 2);
  CHECK(begins->standing.history.job_began == 3001);
  CHECK(begins->image_cost == 0.01);  // although no restart is left
  job.coordinator.finds({{9000, 0, 1, 2, false}});
  CHECK(JobAlone(options).last<wire::CoordinatorBegins>()->standing.history.job_began == 1000);
}

TEST_CASE("the last attempt of a job of one node is not followed by another attempt") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  JobAlone job(options);
  CHECK(job.last<wire::CoordinatorBegins>()->may_restart);
  job.fails().passes(1s);
  CHECK(job.attempt == 1);
  CHECK_FALSE(job.last<wire::CoordinatorBegins>()->may_restart);
}

TEST_CASE("a request to end between two attempts ends the job") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  JobAlone job(options);
  job.fails().says(wire::NodeFailed{0, {.text = "terminated by SIGINT", .exit_code = 130, .signal = 2}});
  REQUIRE(job.last<wire::CoordinatorIsDone>());
  CHECK(job.last<wire::CoordinatorIsDone>()->cause.signal == 2);
  CHECK(job.is_through);
}

TEST_CASE("a worker that cannot be killed prevents the restart of a job of one node") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  JobAlone job(options);
  job.says(wire::NodeFailed{0, failure()}).says(wire::NodeFailed{0, {.text = "rank 1 cannot be killed"}});
  job.says(wire::NodeEnded{0});
  REQUIRE(job.last<wire::CoordinatorIsDone>());
  CHECK(job.last<wire::CoordinatorIsDone>()->cause.not_restarted == "not restarted: rank 1 cannot be killed");
}

TEST_CASE("ranks that do not exit with the others get the exit timeout, which pauses while the job is stopped") {
  CoordinatorOptions options;
  options.exit_timeout = 5min;
  JobAlone job(options);
  job.says(wire::NodeLeft{0, 0}).passes(4min);
  job.coordinator.set_paused(true, job.now);
  CHECK(job.coordinator.alarm() == kForEver);
  job.passes(10h);
  job.coordinator.set_paused(false, job.now);
  job.passes(59s);
  CHECK_FALSE(job.last<wire::CoordinatorEnds>());
  job.passes(1s);
  REQUIRE(job.last<wire::CoordinatorEnds>());
  CHECK(job.last<wire::CoordinatorEnds>()->cause.exit_timed_out);
  CHECK(job.last<wire::CoordinatorEnds>()->cause.exit_code == 124);
}

TEST_CASE("the exit timeout does not affect a job whose workers exit in time") {
  CoordinatorOptions options;
  options.exit_timeout = 5s;
  JobAlone job(options);
  job.says(wire::NodeLeft{0, 0}).says(wire::NodeLeft{0, 1}).says(wire::NodeEnded{0}).passes(1h);
  CHECK(job.last<wire::CoordinatorIsDone>() == wire::CoordinatorIsDone{});
}

TEST_CASE("the pause before a restart does not count down while the job is stopped") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  JobAlone job(options);
  job.fails();
  job.coordinator.set_paused(true, job.now);
  job.passes(1h);
  CHECK(job.stores == 1);
  job.coordinator.set_paused(false, job.now);
  job.passes(ddp::limits::kRestartDelay);
  CHECK(job.stores == 2);
}

TEST_CASE("a job that fails while it is stopped is restarted without being continued") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  JobAlone job(options);
  job.coordinator.set_paused(true, job.now);
  job.fails().passes(ddp::limits::kRestartDelay);
  CHECK(job.stores == 2);
}

#include "launcher/see/view/training_curves.h"

#include <numeric>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

constexpr std::uint64_t kWidth = TrainingCurves::kFirstWidth;

TrainingMoment with_loss(std::uint64_t steps, double loss) {
  TrainingMoment moment;
  moment.steps = steps;
  moment.values = {{"loss", loss}};
  return moment;
}

Curve named(const std::vector<Curve>& curves, std::string_view name) {
  const auto found = std::ranges::find(curves, name, &Curve::name);
  REQUIRE(found != curves.end());
  return *found;
}

}  // namespace

TEST_CASE("a curve stores the mean, minimum and maximum of each column") {
  TrainingCurves curves(8);
  curves.add(with_loss(0, 4), 0);
  curves.add(with_loss(0, 2), kWidth / 2);
  curves.add(with_loss(0, 1), 2 * kWidth);
  const Curve loss = named(curves.curves(), "loss");
  CHECK(loss.mean == Curve::Points{3, std::nullopt, 1});
  CHECK(loss.least == Curve::Points{2, std::nullopt, 1});
  CHECK(loss.most == Curve::Points{4, std::nullopt, 1});
  CHECK(curves.curves().size() == 1);  // no step was done, and no memory is known
}

TEST_CASE("neighbouring points of a curve are merged when all columns are in use") {
  TrainingCurves curves(4);
  for (std::uint64_t i = 0; i < 8; ++i) curves.add(with_loss(i, static_cast<double>(i)), i * kWidth);
  CHECK(curves.width() == 2 * kWidth);
  const auto all = curves.curves();
  CHECK(named(all, "loss").mean == Curve::Points{0.5, 2.5, 4.5, 6.5});
  CHECK(named(all, "loss").most == Curve::Points{1, 3, 5, 7});
  for (std::uint64_t i = 8; i < 1000; ++i) curves.add(with_loss(i, 1), i * kWidth);
  CHECK(curves.columns() <= 4);
  CHECK(named(curves.curves(), "loss").mean.size() == curves.columns());
  curves.add(with_loss(1000, 1), kWidth << 50U);  // after a very long pause
  CHECK(curves.columns() <= 4);
}

TEST_CASE("steps per second are averaged over at least ten steps or over neighbouring points") {
  TrainingCurves curves(64);
  // 20 steps per second begin after two seconds, and a checkpoint had 500 of them.
  for (std::uint64_t i = 0; i < 8; ++i) curves.add({}, i * kWidth);
  for (std::uint64_t i = 0; i < 48; ++i) curves.add(with_loss(500 + 5 * i, 1), (8 + i) * kWidth);
  const Curve steps = named(curves.curves(), kStepsCurve);
  CHECK(steps.mean.front() == std::nullopt);
  CHECK(steps.least.empty());
  for (std::size_t i = 12; i < 52; ++i) {
    CAPTURE(i);
    CHECK(steps.mean[i].value() == Approx(20).epsilon(0.01));
  }
}

TEST_CASE("slow steps give a smooth rate") {
  TrainingCurves curves(200);
  for (std::uint64_t i = 0; i < 160; ++i) curves.add(with_loss(i / 8, 1), i * kWidth);  // one step in two seconds
  const Curve steps = named(curves.curves(), kStepsCurve);
  for (std::size_t i = 40; i < 120; ++i) {
    CAPTURE(i);
    CHECK(steps.mean[i].value() == Approx(0.5).epsilon(0.25));
  }
}

TEST_CASE("the rate becomes 0 when the next step is long overdue") {
  TrainingCurves curves(64);
  for (std::uint64_t i = 0; i < 40; ++i) curves.add(with_loss(std::min<std::uint64_t>(5 * i, 100), 1), i * kWidth);
  const Curve steps = named(curves.curves(), kStepsCurve);
  CHECK(steps.mean[20].value() == Approx(20).epsilon(0.01));
  for (std::size_t i = 21; i < 39; ++i) CHECK(steps.mean[i] == 0);

  TrainingCurves slow(64);
  for (std::uint64_t i = 0; i < 20; ++i) slow.add(with_loss(i / 8, 1), i * kWidth);  // two seconds per step
  CHECK(named(slow.curves(), kStepsCurve).mean[19].value() > 0.3);
}

TEST_CASE("a smaller number of steps restarts the count") {
  TrainingCurves curves(16);
  for (std::uint64_t i = 0; i < 5; ++i) curves.add(with_loss(1000 + i, 1), i * kWidth);
  for (std::uint64_t i = 5; i < 12; ++i) curves.add(with_loss(i, 1), i * kWidth);
  const Curve steps = named(curves.curves(), kStepsCurve);
  for (const auto& rate : steps.mean) CHECK(rate.value_or(0) < 10);
}

TEST_CASE("numbers that are not finite are unknown, and the number of names is limited") {
  TrainingCurves curves(8);
  curves.add(with_loss(0, std::numeric_limits<double>::infinity()), 0);
  CHECK(curves.curves().empty());
  for (int i = 0; i < 100; ++i) {
    TrainingMoment moment;
    moment.values = {{"value " + std::to_string(i), 1.0}};
    curves.add(moment, 1);
  }
  CHECK(curves.curves().size() <= 12);
}

TEST_CASE("a value that the program reports replaces the launcher's curve of the same name") {
  TrainingCurves curves(8);
  TrainingMoment moment;
  moment.memory_bytes = 1000;
  curves.add(moment, 0);
  moment.values = {{"memory", 12.5}, {"steps/s", 3}};
  for (std::uint64_t i = 1; i < 4; ++i) {
    moment.steps = i;
    curves.add(moment, i * kWidth);
  }
  const auto all = curves.curves();
  CHECK(all.size() == 2);
  CHECK(named(all, "memory").mean == Curve::Points{std::nullopt, 12.5, 12.5, 12.5});
  CHECK(named(all, "steps/s").mean.back() == 3);
}

TEST_CASE("the points of a curve have five digits") {
  TrainingCurves curves(8);
  curves.add(with_loss(0, 1.23456789), 0);
  CHECK(named(curves.curves(), "loss").mean == Curve::Points{1.2346});
  CHECK(named(curves.curves(), "loss").mean != Curve::Points{1.23456789});
}

TEST_CASE("the curves come from the lowest reporting rank, and the memory from the rank with the most") {
  std::vector<RankView> ranks(3);
  for (int i = 0; i < 3; ++i) {
    RankView& rank = ranks[static_cast<std::size_t>(i)];
    rank.rank = i;
    rank.page.groups.emplace_back();
    rank.page.optimizer_steps = static_cast<std::uint64_t>(5 + i);
    rank.usage = RankUsage{};
    rank.usage->rss_bytes = static_cast<std::uint64_t>(100 * (i + 1));
  }
  ranks[2].has_ended = true;
  TrainingMoment moment = training_of(ranks, {{"loss", 1}});
  CHECK(moment.steps == 7);
  CHECK(moment.memory_bytes == 200);
  CHECK(moment.gpu_memory_bytes == std::nullopt);
  CHECK_FALSE(moment.is_reported);
  CHECK(moment.values == std::vector<ProgressValue>{{"loss", 1}});

  ranks[2].page.progress_done = 40;
  ranks[1].page.progress_done = 30;
  ranks[1].page.progress_total = 60;
  moment = training_of(ranks, {});
  CHECK(moment.is_reported);
  CHECK(moment.steps == 30);
  CHECK(moment.total_steps == 60);
}

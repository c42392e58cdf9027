#include "launcher/run/process/image_directory.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "launcher/run/process/state_memory.h"
#include "support/catch.h"
#include "support/temporary_directory.h"
#include "wire/state_file.h"

using namespace ddp::launcher;
using ddp::wire::KeptImage;
using ddp::wire::StateEntry;
using ddp::wire::StateKind;

namespace {

namespace fs = std::filesystem;

// A node of a job of `world` ranks.
struct Node {
  int first_rank = 0;
  int world = 2;
  StateMemory memory{2};

  void keeps(int area, int place, std::int64_t step, StateKind kind, const std::string& data,
             std::uint64_t key = 7) const {
    const ddp::wire::StateFile file(memory.descriptor());
    REQUIRE(file.write(area, place, 0, std::as_bytes(std::span(data))));
    REQUIRE(file.set_entry(area, place, {step, data.size(), key, kind, 0, first_rank + area, world, 0, 0}));
  }
  void keeps_step(std::int64_t step) const {
    keeps(0, 8, step, StateKind::final, "own 0");
    keeps(1, 8, step, StateKind::final, "own 1");
    keeps(0, 10, step, StateKind::whole, "all at " + std::to_string(step));
  }
  WrittenImage write(const std::string& directory, std::int64_t job_began = 1000) const {
    ImageProgress progress;
    progress.is_urgent = true;
    return write_image({directory, job_began, memory.descriptor(), newest_step_of(memory.kept(), 2).value()}, progress);
  }
};

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

std::string data_of(const std::string& path) {
  return ddp::base::read_file(path).substr(ddp::wire::kImageDataAt);
}

}  // namespace

TEST_CASE("an image is complete if each rank has finished the step and its whole state is on disk") {
  const Node node;
  CHECK_FALSE(newest_step_of(node.memory.kept(), 2));
  node.keeps(0, 1, 4, StateKind::final, "a");
  node.keeps(0, 10, 4, StateKind::whole, "whole");
  node.keeps(1, 0, 4, StateKind::early, "b");
  CHECK_FALSE(newest_step_of(node.memory.kept(), 2));
  node.keeps(1, 1, 4, StateKind::final_moved, "b", 8);
  CHECK_FALSE(newest_step_of(node.memory.kept(), 2));
  node.keeps(1, 1, 4, StateKind::final, "b");
  const auto step = newest_step_of(node.memory.kept(), 2);
  REQUIRE(step);
  CHECK(step->step == 4);
  CHECK(step->own.size() == 2);
  CHECK(step->whole.size() == 1);
  // What is in a place that is soon overwritten counts only if there is no other.
  node.keeps(0, 8, 4, StateKind::final, "a");
  CHECK(newest_step_of(node.memory.kept(), 2)->own[0].place == 8);
  CHECK(newest_step_of(node.memory.kept(), 2)->own[1].place == 1);
}

TEST_CASE("an image of one node is complete at once") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/new/images";
  CHECK(images_in(path).empty());
  const Node node;
  node.keeps_step(5);
  const WrittenImage written = node.write(path);
  CHECK(written.failure.empty());
  CHECK(written.is_complete);
  REQUIRE(images_in(path) == std::vector{KeptImage{1000, 0, 5, 2, true}});
  CHECK(list_images(path).value() == images_in(path));
  const std::string image = path + "/" + name_of(images_in(path).front());
  CHECK(names_in(image) == std::set<std::string>{"rank-0", "rank-1", "whole-7"});
  CHECK(data_of(image + "/rank-1") == "own 1");
  CHECK(data_of(image + "/whole-7") == "all at 5");
  CHECK(node.write(path).is_complete);  // again
}

TEST_CASE("the last node completes an image, and one node writes each key") {
  const TemporaryDirectory directory;
  const Node first{0, 4};
  const Node second{2, 4};
  first.keeps_step(5);
  second.keeps_step(5);
  second.keeps(1, 8, 5, StateKind::final, "own 3", 9);
  second.keeps(1, 10, 5, StateKind::whole, "the other part", 9);
  CHECK_FALSE(second.write(directory.path()).is_complete);
  CHECK(images_in(directory.path()).empty());
  CHECK(first.write(directory.path()).is_complete);
  REQUIRE(images_in(directory.path()) == std::vector{KeptImage{1000, 0, 5, 4, false}});
  CHECK(names_in(directory.path()).size() == 1);
}

TEST_CASE("the final image may lack one step of a lost rank") {
  const TemporaryDirectory directory;
  const Node lost{0, 4};
  const Node survivor{2, 4};
  const auto write_last = [&](const Node& node) {
    ImageProgress progress;
    progress.is_urgent = true;
    WrittenImage written;
    for (auto& step : last_steps_of(node.memory.kept(), 2))
      written = write_image({directory.path(), 1000, node.memory.descriptor(), step}, progress);
    return written;
  };
  lost.keeps(0, 2, 5, StateKind::early, "early 0");
  lost.keeps(1, 2, 5, StateKind::early, "early 1");
  CHECK_FALSE(newest_step_of(lost.memory.kept(), 2));
  CHECK_FALSE(write_last(lost).is_complete);
  SECTION("its early entry counts") {
    survivor.keeps_step(5);
    CHECK(write_last(survivor).is_complete);
  }
  SECTION("unless others have drawn random numbers later") {
    survivor.keeps_step(5);
    survivor.keeps(1, 8, 5, StateKind::final_moved, "own 3");
    CHECK_FALSE(write_last(survivor).is_complete);
  }
  SECTION("or if no rank has finished the step") {
    survivor.keeps(0, 8, 5, StateKind::early, "early 2");
    survivor.keeps(1, 8, 5, StateKind::early, "early 3");
    survivor.keeps(0, 10, 5, StateKind::whole, "all");
    CHECK_FALSE(write_last(survivor).is_complete);
  }
}

TEST_CASE("two images are kept, and older or incomplete ones are removed") {
  const TemporaryDirectory directory;
  const Node node;
  const Node half{0, 4};
  half.keeps_step(6);
  CHECK_FALSE(half.write(directory.path()).is_complete);
  for (const std::int64_t step : {5, 7, 9}) {
    node.keeps_step(step);
    CHECK(node.write(directory.path()).is_complete);
  }
  CHECK(names_in(directory.path()) ==
        std::set<std::string>{"image-1000-0-step-7-of-2-replicas", "image-1000-0-step-9-of-2-replicas"});
  // What a later job has written stays.
  node.keeps_step(11);
  CHECK(node.write(directory.path(), 900).is_complete);
  CHECK(names_in(directory.path()).size() == 3);
}

TEST_CASE("images of later steps and images that this job has not resumed from are kept") {
  const TemporaryDirectory directory;
  const Node node;
  for (const std::int64_t step : {900, 16, 32, 48}) {
    node.keeps_step(step);
    CHECK(node.write(directory.path(), step == 900 ? 500 : 1000).is_complete);
  }
  CHECK(names_in(directory.path()) == std::set<std::string>{"image-500-0-step-900-of-2-replicas",
                                                            "image-1000-0-step-32-of-2-replicas",
                                                            "image-1000-0-step-48-of-2-replicas"});
}

TEST_CASE("a node that leaves the whole state of an image to another node reports only its own writing time") {
  const TemporaryDirectory directory;
  const Node first{0, 4};
  const Node second{2, 4};
  first.keeps_step(5);
  second.keeps_step(5);
  first.keeps(0, 10, 5, StateKind::whole, std::string(std::size_t{1} << 20, 'x'));
  second.keeps(0, 10, 5, StateKind::whole, std::string(std::size_t{1} << 20, 'x'));
  CHECK_FALSE(first.write(directory.path()).is_complete);
  const WrittenImage written = second.write(directory.path());
  CHECK(written.is_complete);
  CHECK(written.newest == KeptImage{1000, 0, 5, 4, true});
  CHECK(written.time < std::chrono::seconds(100));  // a thousand times as long before
}

TEST_CASE("an image directory that cannot be listed is not treated as empty") {
  const TemporaryDirectory directory;
  CHECK(list_images(directory.path() + "/missing").value().empty());
  std::ofstream(directory.path() + "/file") << "text";
  CHECK_FALSE(list_images(directory.path() + "/file"));
}

TEST_CASE("a state that programs overwrite during the copy gives no image") {
  const TemporaryDirectory directory;
  const Node node;
  node.keeps_step(5);
  ImageTask task{directory.path(), 1000, node.memory.descriptor(), newest_step_of(node.memory.kept(), 2).value()};
  node.keeps(0, 10, 8, StateKind::whole, "all at 8");
  ImageProgress progress;
  progress.is_urgent = true;
  const WrittenImage written = write_image(task, progress);
  CHECK(written.is_overtaken);
  CHECK(written.failure.empty());
  CHECK(names_in(directory.path()).empty());
}

TEST_CASE("an image directory that cannot be written is an error with the reason") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "text";
  const Node node;
  node.keeps_step(5);
  CHECK(node.write(file).failure == "Not a directory");
  CHECK(node.write("/proc/images").failure != "");
  if (fs::exists("/dev/full")) CHECK(node.write("/dev/full").failure == "Not a directory");
}

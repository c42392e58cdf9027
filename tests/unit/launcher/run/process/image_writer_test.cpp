#include "launcher/run/process/image_writer.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "launcher/run/process/state_memory.h"
#include "support/catch.h"
#include "support/temporary_directory.h"
#include "wire/state_file.h"

using namespace ddp::launcher;
using ddp::wire::StateKind;
using namespace std::chrono_literals;

namespace {

struct Job {
  TemporaryDirectory directory;
  std::vector<LogLine> lines;
  StateMemory memory{1};
  Placement placement;
  ImageWriter writer{directory.path() + "/images", [this](const LogLine& line) { lines.push_back(line); }};

  Job() { placement.job_began = 1000; }
  void keeps(std::int64_t step, int world = 1) const {
    const ddp::wire::StateFile file(memory.descriptor());
    for (const auto& [place, kind] : {std::pair(8, StateKind::final), std::pair(10, StateKind::whole)}) {
      REQUIRE(file.write(0, place, 0, std::as_bytes(std::span("data", 4))));
      REQUIRE(file.set_entry(0, place, {step, 4, 7, kind, 0, 0, world, 0, 0}));
    }
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const auto& image : images_in(directory.path() + "/images")) found.push_back(image.step);
    return found;
  }
  void poll_until_written() {
    const std::size_t before = lines.size();
    while (lines.size() == before) writer.write_newest(memory, placement);
  }
  void finish() {
    writer.finish(memory, placement, [] { return false; });
  }
};

}  // namespace

TEST_CASE("the newest complete step is written once") {
  Job job;
  job.writer.write_newest(job.memory, job.placement);
  job.finish();
  CHECK(job.steps().empty());
  job.keeps(5);
  job.writer.write_newest(job.memory, job.placement);
  job.finish();
  CHECK(job.steps() == std::vector<std::int64_t>{5});
  REQUIRE(job.lines.size() == 2);
  CHECK(job.lines[0].level == LogLevel::debug);
  CHECK(job.lines[1].text ==
        "step 5 is in " + job.directory.path() + "/images: the same job goes on from it if it is started again");
}

TEST_CASE("a step that was not written yet is written at the end") {
  Job job;
  job.keeps(9);
  job.finish();
  CHECK(job.steps() == std::vector<std::int64_t>{9});
}

TEST_CASE("a failed image gives a warning, and the same failure gives no second one") {
  Job job;
  std::ofstream(job.directory.path() + "/images") << "a file";
  job.keeps(5);
  job.finish();
  job.keeps(6);
  job.finish();
  REQUIRE(job.lines.size() == 1);
  CHECK(job.lines[0].level == LogLevel::warning);
  CHECK(job.lines[0].text == "step 5 is not in --image-dir=" + job.directory.path() + "/images: Not a directory");
}

TEST_CASE("a user who interrupts the job does not wait for the last image") {
  Job job;
  job.keeps(5);
  job.writer.write_newest(job.memory, job.placement);
  bool is_asked = false;
  job.writer.finish(job.memory, job.placement, [&] { return is_asked = true; });
  // The write may have been faster than the first look.
  REQUIRE_FALSE(job.lines.empty());
  CHECK((is_asked ? job.lines[0].level == LogLevel::warning : job.lines[0].level == LogLevel::debug));
}

TEST_CASE("a warning says that the nodes share no directory if no image becomes complete") {
  Job job;
  for (int step = 1; step < 6; ++step) {
    job.keeps(step, 2);  // another node has the other rank
    job.poll_until_written();
  }
  const auto is_warning = [](const LogLine& line) { return line.level == LogLevel::warning; };
  REQUIRE(std::ranges::count_if(job.lines, is_warning) == 1);
  CHECK(std::ranges::find_if(job.lines, is_warning)->text ==
        "no image in --image-dir=" + job.directory.path() +
            "/images becomes complete: all nodes must share that directory");
}

TEST_CASE("a directory that takes nothing of an image for long is reported once, and written to when it answers") {
  Job job;
  job.keeps(5);
  // The writer finds the rank's own file, and opens it to read its entry. This one has no end yet.
  const std::string images = job.directory.path() + "/images";
  const std::string staging = images + "/." + ddp::wire::name_of({1000, 0, 5, 1, false});
  REQUIRE(std::filesystem::create_directories(staging));
  const std::string fifo = staging + "/" + ddp::wire::own_file_of(0);
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto begun = ImageWriter::Clock::now();
  job.writer.write_newest(job.memory, job.placement, begun);
  std::this_thread::sleep_for(100ms);  // it has written the other file by now
  job.writer.write_newest(job.memory, job.placement, begun + 1s);
  job.writer.write_newest(job.memory, job.placement, begun + 30s);
  CHECK(job.lines.empty());
  for (const auto passed : {31s, 32s, 90s}) job.writer.write_newest(job.memory, job.placement, begun + passed);
  REQUIRE(job.lines.size() == 1);
  CHECK(job.lines[0].level == LogLevel::warning);
  CHECK(job.lines[0].text == "--image-dir=" + images +
                                 " has taken nothing of step 5 for 30.0 s: its file system may hang. No image is "
                                 "written meanwhile");
  std::ofstream(fifo).close();
  job.lines.clear();
  job.poll_until_written();
}

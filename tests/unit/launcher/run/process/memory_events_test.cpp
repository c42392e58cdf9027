#include "launcher/run/process/memory_events.h"

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("an out-of-memory kill is reported with the cgroup's limit and peak") {
  const TemporaryDirectory root;
  const std::string job = root.path() + "/pod/job";
  write(job + "/memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\n");
  write(job + "/memory.max", "67108864\n");
  write(job + "/memory.peak", "67000000\n");
  OomWatch watch({{job, true}, {root.path() + "/pod", true}}, root.path() + "/none");
  CHECK_FALSE(watch.new_kill());
  write(job + "/memory.events", "max 9\noom_kill 4\n");
  const auto kill = watch.new_kill();
  REQUIRE(kill);
  CHECK(*kill == OomKill{job, 67108864, 67000000});
  CHECK_FALSE(watch.new_kill());
}

TEST_CASE("the out-of-memory counters of cgroup version 1 and of the node are read") {
  const TemporaryDirectory root;
  const std::string job = root.path() + "/job";
  write(job + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  write(job + "/memory.limit_in_bytes", "9223372036854771712\n");
  write(root.path() + "/vmstat", "nr_free_pages 1\noom_kill 7\n");
  OomWatch watch({{job, false}}, root.path() + "/vmstat");
  write(root.path() + "/vmstat", "nr_free_pages 1\noom_kill 8\n");
  CHECK(watch.new_kill() == OomKill{});
  write(job + "/memory.oom_control", "oom_kill 1\n");
  CHECK(watch.new_kill() == OomKill{});  // the kill is counted in the killed process's cgroup, which has no limit
  write(job + "/memory.limit_in_bytes", "4096\n");
  write(job + "/memory.oom_control", "oom_kill 2\n");
  CHECK(watch.new_kill() == OomKill{job, 4096, 0});
}

TEST_CASE("the full cgroup is reported, not the cgroup of the killed process") {
  const TemporaryDirectory root;
  const std::string pod = root.path() + "/pod";
  for (const std::string& folder : {pod + "/job", pod}) write(folder + "/memory.events", "oom_kill 0\n");
  write(pod + "/job/memory.max", "max\n");
  write(pod + "/memory.max", "8192\n");
  OomWatch watch({{pod + "/job", true}, {pod, true}}, root.path() + "/none");
  for (const std::string& folder : {pod + "/job", pod}) write(folder + "/memory.events", "oom_kill 1\n");
  CHECK(watch.new_kill() == OomKill{pod, 8192, 0});
}
